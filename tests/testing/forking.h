// For tests that fork while other threads run.
#pragma once

#include "absl/synchronization/mutex.h"

namespace hone {

// Debian's Abseil looks for deadlocks under a lock of the whole process, which a child of fork may
// find taken for ever. libhone's own Abseil is built without that.
inline const bool kForkable = [] {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return true;
}();

}  // namespace hone
