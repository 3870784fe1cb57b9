// Who may compile now: a bounded number of slots, given by priority, then in order of arrival.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"
#include "runtime/compile/compiler.h"

namespace hone {

// Thread-safe. One slot is kept from warm-up work when there are several, so that a caller who
// waits does not wait for a whole slow compile that nobody waits for.
class CompileQueue {
 public:
  // `waiting_max` bounds the callers of equal or higher priority that wait.
  CompileQueue(int slots, int waiting_max);

  // Blocks until a slot is the caller's; Release gives it back, with the priority returned here:
  // the one given, or what `urgency` was raised to meanwhile. RESOURCE_EXHAUSTED: the queue is
  // full. UNAVAILABLE: closed.
  absl::StatusOr<CompilePriority> Acquire(CompilePriority priority,
                                          CompileUrgency* urgency = nullptr);
  void Release(CompilePriority priority);

  // Everyone who waits and everyone who comes gets UNAVAILABLE.
  void Close();
  // Until every slot is back. REQUIRES: closed.
  void AwaitIdle();

  int slots() const { return slots_; }
  int running() const;
  int waiting() const;

 private:
  struct Waiter {
    CompilePriority priority = CompilePriority::kWarm;
    CompileUrgency* urgency = nullptr;
    bool admitted = false;
    bool closed = false;
  };
  // Higher priority first, then lower sequence.
  using Order = std::pair<int, int64_t>;

  bool MayRun(CompilePriority priority) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int WaitingAtLeast(CompilePriority priority) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(CompilePriority priority) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdmitWaiters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts waiters whose urgency has grown where they belong now.
  void Reorder() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Wait(Waiter& waiter) ABSL_LOCKS_EXCLUDED(mutex_);

  const int slots_;
  const int waiting_max_;
  mutable Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_warm_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Order, Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
