#include "runtime/cache/executor.h"

#include <utility>

namespace hone {

Executor::Executor(int threads, int queue_max) : queue_max_(static_cast<size_t>(queue_max)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

Executor::~Executor() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    queue_.clear();
  }
  for (std::thread& thread : threads_) thread.join();
}

bool Executor::Submit(std::function<void()> work) {
  MutexLock lock(&mutex_);
  if (stopped_ || queue_.size() >= queue_max_) return false;
  queue_.push_back(std::move(work));
  return true;
}

void Executor::Loop() {
  while (true) {
    std::function<void()> work;
    {
      MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Executor::HasWork));
      if (stopped_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace hone
