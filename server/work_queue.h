// A bounded pool of threads for work that may block, so that no gRPC thread ever does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/fair_queue.h"
#include "runtime/base/mutex.h"

namespace hone {

// Thread-safe. Threads are started when there is work for them: an idle daemon stays small. Clients
// take turns (see FairQueue).
class WorkQueue {
 public:
  // `what` is waiting, for errors: "look-ups".
  WorkQueue(std::string what, int threads_max, int queue_max);
  // Ends like Shutdown.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // RESOURCE_EXHAUSTED with a retry hint when the queue has no room for this client, UNAVAILABLE
  // after Shutdown; then `work` never runs.
  absl::Status Submit(uint64_t client, std::function<void()> work);

  // Takes nothing more, runs what is queued and waits for it.
  void Shutdown();

 private:
  void Run();
  bool HasWorkOrStops() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !queue_.empty() || stopping_;
  }

  const std::string what_;
  const size_t threads_max_;
  Mutex mutex_;
  FairQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hone
