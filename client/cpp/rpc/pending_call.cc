#include "client/cpp/rpc/pending_call.h"

#include <utility>

namespace hone {
namespace {

// What may lie unread in a stream before its peer is asked to pause; beyond it come what is on its
// way and the message that was begun.
constexpr size_t kUnreadBytesMax = size_t{1} << 20;

}  // namespace

bool PendingCall::Deliver(std::vector<std::string> messages) {
  const MutexLock lock(&mutex_);
  if (end_) return true;
  for (std::string& message : messages) {
    unread_bytes_ += message.size();
    messages_.push_back(std::move(message));
  }
  // A single message is bounded by itself, and its caller waits for the end.
  paused_ = request.streaming && unread_bytes_ > kUnreadBytesMax;
  return !paused_;
}

void PendingCall::Finish(CallEnd end) {
  const MutexLock lock(&mutex_);
  if (!end_) end_ = std::move(end);
}

bool PendingCall::finished() {
  const MutexLock lock(&mutex_);
  return end_.has_value();
}

PendingCall::News PendingCall::Next() {
  const MutexLock lock(&mutex_);
  News news;
  if (!mutex_.AwaitWithDeadline(absl::Condition(this, &PendingCall::HasNews), request.deadline)) {
    return news;
  }
  if (messages_.empty()) {
    news.end = std::move(end_);  // stays engaged: the call has ended
    return news;
  }
  news.message = std::move(messages_.front());
  messages_.pop_front();
  unread_bytes_ -= news.message->size();
  if (messages_.empty()) news.resume = std::exchange(paused_, false);
  return news;
}

}  // namespace hone
