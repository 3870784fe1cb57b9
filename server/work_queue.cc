#include "server/work_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"

namespace hone {
namespace {

// Long enough for a few pieces of work to leave a full queue, short enough for a person.
constexpr int64_t kQueueRetryAfterMs = 500;

}  // namespace

WorkQueue::WorkQueue(std::string name, int threads_max, int queue_max)
    : name_(std::move(name)),
      threads_max_(static_cast<size_t>(threads_max)),
      queue_max_(static_cast<size_t>(queue_max)) {}

WorkQueue::~WorkQueue() { Shutdown(); }

absl::Status WorkQueue::Submit(std::function<void()> work) {
  MutexLock lock(&mutex_);
  if (stopping_) return absl::UnavailableError("the daemon is shutting down");
  if (queue_.size() >= queue_max_) {
    return WithErrorInfo(absl::ResourceExhaustedError(absl::StrCat(
                             "the daemon's ", name_, " queue is full: ", queue_.size(),
                             " calls wait, the limit is ", queue_max_, "; try again shortly")),
                         {.reason = "QUEUE_FULL",
                          .needed = static_cast<int64_t>(queue_.size() + 1),
                          .available = static_cast<int64_t>(queue_max_),
                          .retry_after_ms = kQueueRetryAfterMs});
  }
  queue_.push_back(std::move(work));
  if (idle_ < queue_.size() && threads_.size() < threads_max_) {
    threads_.emplace_back([this] { Run(); });
  }
  return absl::OkStatus();
}

void WorkQueue::Run() {
  while (true) {
    std::function<void()> work;
    {
      MutexLock lock(&mutex_);
      ++idle_;
      mutex_.Await(absl::Condition(this, &WorkQueue::HasWorkOrStops));
      --idle_;
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

void WorkQueue::Shutdown() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hone
