// Abseil's Mutex for code that is also built under ThreadSanitizer.
//
// Debian's Abseil is compiled without TSan, so TSan cannot see the ordering its Mutex gives. This
// wrapper states it with TSan's own annotations and is otherwise absl::Mutex: same methods, same
// thread-safety attributes.
#pragma once

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/base/sanitizers.h"

#ifdef HONE_TSAN
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace hone {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mutex_.Lock();
    Acquired();
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    Releasing();
    mutex_.Unlock();
  }

  // Waits until `condition` holds; the mutex is held on entry and on return.
  void Await(const absl::Condition& condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    Releasing();
    const Annotated annotated{this, &condition};
    mutex_.Await(annotated.Wrapped(condition));
    Acquired();
  }
  // As Await, but gives up at `deadline`; returns whether the condition holds.
  bool AwaitWithDeadline(const absl::Condition& condition, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    Releasing();
    const Annotated annotated{this, &condition};
    const bool held = mutex_.AwaitWithDeadline(annotated.Wrapped(condition), deadline);
    Acquired();
    return held;
  }
  bool AwaitWithTimeout(const absl::Condition& condition, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    Releasing();
    const Annotated annotated{this, &condition};
    const bool held = mutex_.AwaitWithTimeout(annotated.Wrapped(condition), timeout);
    Acquired();
    return held;
  }
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() { mutex_.AssertHeld(); }

 private:
  // Abseil evaluates conditions inside its own Lock and Unlock, in whichever thread: the mutex is
  // held then, but these annotations would not know.
  struct Annotated {
    Mutex* mutex;
    const absl::Condition* condition;
#ifdef HONE_TSAN
    absl::Condition Wrapped(const absl::Condition&) const {
      return absl::Condition(&Annotated::Evaluate, const_cast<Annotated*>(this));
    }
    static bool Evaluate(Annotated* self) {
      self->mutex->Acquired();
      const bool holds = self->condition->Eval();
      self->mutex->Releasing();
      return holds;
    }
#else
    const absl::Condition& Wrapped(const absl::Condition& plain) const { return plain; }
#endif
  };

#ifdef HONE_TSAN
  void Acquired() { __tsan_acquire(this); }
  void Releasing() { __tsan_release(this); }
#else
  void Acquired() {}
  void Releasing() {}
#endif

  absl::Mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

}  // namespace hone
