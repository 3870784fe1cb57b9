// A fixed number of threads over one bounded queue.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/base/mutex.h"

namespace hone {

// Thread-safe. The destructor drops what is still queued and waits for what runs.
class Executor {
 public:
  Executor(int threads, int queue_max);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // False when the queue is full or the executor stops: `work` will not run.
  bool Submit(std::function<void()> work);

 private:
  void Loop();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopped_ || !queue_.empty(); }

  const size_t queue_max_;
  Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace hone
