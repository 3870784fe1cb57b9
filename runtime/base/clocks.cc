#include "runtime/base/clocks.h"

#include "absl/time/clock.h"

namespace hone {

int64_t UnixMillis() { return absl::ToUnixMillis(absl::Now()); }

absl::Duration MonotonicNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace hone
