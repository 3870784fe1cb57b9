#include "server/work_queue.h"

#include <utility>

namespace hone {
namespace {

// Long enough for a few pieces of work to leave a full queue, short enough for a person.
constexpr absl::Duration kQueueRetryAfter = absl::Milliseconds(500);

}  // namespace

WorkQueue::WorkQueue(std::string what, int threads_max, int queue_max)
    : what_(std::move(what)),
      threads_max_(static_cast<size_t>(threads_max)),
      queue_(static_cast<size_t>(queue_max)) {}

WorkQueue::~WorkQueue() { Shutdown(); }

absl::Status WorkQueue::Submit(uint64_t client, std::function<void()> work) {
  MutexLock lock(&mutex_);
  if (stopping_) return absl::UnavailableError("the daemon is shutting down; try again shortly");
  if (!queue_.Push(client, std::move(work))) return queue_.Full(client, what_, kQueueRetryAfter);
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
      work = queue_.Pop();
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
