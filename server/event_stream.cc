#include "server/event_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"

namespace hone {

void EventStream::Bind(grpc::ServerWriteReactor<grpc::ByteBuffer>* reactor) {
  MutexLock lock(&mutex_);
  reactor_ = reactor;
  Pump();
}

void EventStream::Push(std::string subject, grpc::ByteBuffer event) {
  MutexLock lock(&mutex_);
  if (finished_ || end_.has_value()) return;
  const auto same = subject.empty()
                        ? waiting_.end()
                        : std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& other) {
                            return other.subject == subject;
                          });
  if (same != waiting_.end()) {
    same->event.Swap(&event);
  } else if (waiting_.size() >= kWaitingMax) {
    waiting_.clear();
    end_ = ToGrpc(absl::ResourceExhaustedError(absl::StrCat(
        "this client reads too slowly: ", kWaitingMax, " events wait for it. ", hint_)));
  } else {
    waiting_.push_back({std::move(subject), std::move(event)});
  }
  Pump();
}

void EventStream::End(const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (finished_ || end_.has_value()) return;
  end_ = ToGrpc(status);
  Pump();
}

bool EventStream::ended() const {
  MutexLock lock(&mutex_);
  return finished_ || end_.has_value();
}

void EventStream::Written(bool ok) {
  MutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) {  // the connection is gone
    waiting_.clear();
    if (!end_.has_value()) end_ = grpc::Status::CANCELLED;
  }
  Pump();
}

void EventStream::Cancel() {
  MutexLock lock(&mutex_);
  waiting_.clear();
  if (!end_.has_value()) end_ = grpc::Status::CANCELLED;
  Pump();
}

// gRPC calls back on its own threads, never from within StartWrite or Finish, so both may be called
// under the lock; it keeps a Finish from overtaking a write.
void EventStream::Pump() {
  if (reactor_ == nullptr || finished_ || writing_) return;
  if (!waiting_.empty()) {
    current_ = std::move(waiting_.front().event);
    waiting_.pop_front();
    writing_ = true;
    reactor_->StartWrite(&current_);
  } else if (end_.has_value()) {
    finished_ = true;
    reactor_->Finish(*end_);
  }
}

}  // namespace hone
