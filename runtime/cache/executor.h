// A fixed number of threads over two bounded queues.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/fair_queue.h"
#include "runtime/base/mutex.h"

namespace hone {

// Urgent work goes first; patient work is run by some of the threads only, so that urgent work
// never waits for all of them to come back from it. Clients take turns within each (see FairQueue).
enum class Urgency { kUrgent, kPatient };

// Thread-safe. The destructor drops what is still queued and waits for what runs.
class Executor {
 public:
  struct Options {
    std::string what;  // is waiting, for errors: "compiles"
    int threads = 1;
    int patient_threads_max = 1;
    int queue_max = 1;  // of each urgency
  };

  explicit Executor(Options options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // An id for Remove. RESOURCE_EXHAUSTED when the queue has no room for this client, with a hint
  // when it may have; UNAVAILABLE when the executor stops. `work` will not run then.
  absl::StatusOr<int64_t> Submit(Urgency urgency, uint64_t client, std::function<void()> work);
  // Takes work out of the queue. False when it has begun.
  bool Remove(int64_t id);
  int64_t waiting() const;

 private:
  void Loop();
  bool PatientMayRun() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !patient_.empty() && patient_running_ < options_.patient_threads_max;
  }
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopped_ || !urgent_.empty() || PatientMayRun();
  }
  absl::Duration RetryAfter(size_t waiting) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  FairQueue urgent_ ABSL_GUARDED_BY(mutex_);
  FairQueue patient_ ABSL_GUARDED_BY(mutex_);
  int patient_running_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of one piece of work, the latest counting most.
  absl::Duration mean_run_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace hone
