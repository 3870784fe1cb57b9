// Notification for code that is also built under ThreadSanitizer; see mutex.h.
#pragma once

#include "runtime/base/mutex.h"
#include "runtime/base/notification.h"

namespace hone {

// Thread-safe. What a thread did before Notify is seen by those that waited.
class Notification {
 public:
  Notification() = default;
  // Waits until Notify has let go of this object.
  ~Notification() { MutexLock lock(&mutex_); }

  // Once at most.
  void Notify() {
    MutexLock lock(&mutex_);
    notified_ = true;
  }
  bool HasBeenNotified() {
    MutexLock lock(&mutex_);
    return notified_;
  }
  void WaitForNotification() {
    MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&notified_));
  }
  // Returns whether it was notified.
  bool WaitForNotificationWithTimeout(absl::Duration timeout) {
    MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&notified_), timeout);
  }

 private:
  Mutex mutex_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hone
