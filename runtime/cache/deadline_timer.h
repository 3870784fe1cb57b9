// Calls functions at points in time, on one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "runtime/base/mutex.h"

namespace hone {

// Thread-safe. Functions must not block. The destructor drops those not yet due.
class DeadlineTimer {
 public:
  DeadlineTimer();
  ~DeadlineTimer();
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;

  // Returns an id for Cancel. A time in the past is due at once.
  int64_t At(absl::Time time, std::function<void()> call);
  // No effect when the call has begun.
  void Cancel(int64_t id);

 private:
  using Slot = std::pair<absl::Time, int64_t>;
  void Loop();

  Mutex mutex_;
  std::map<Slot, std::function<void()>> due_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, absl::Time> times_ ABSL_GUARDED_BY(mutex_);
  int64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace hone
