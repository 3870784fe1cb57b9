// Time for limits (monotonic) and for records (wall clock).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/time/time.h"

namespace hone {

// A point on the monotonic clock: a step of the wall clock neither shortens nor lengthens a limit.
// Immutable.
class Deadline {
 public:
  static Deadline Never() { return Deadline(Clock::time_point::max()); }
  // Durations below zero count as zero, and those past the clock's range as never.
  static Deadline In(absl::Duration duration) {
    if (duration >= absl::Hours(24 * 365)) return Never();
    return Deadline(Clock::now() + std::chrono::nanoseconds(absl::ToInt64Nanoseconds(
                                       std::max(duration, absl::ZeroDuration()))));
  }

  bool never() const { return at_ == Clock::time_point::max(); }
  bool passed() const { return !never() && Clock::now() >= at_; }
  // Never below zero; infinite for Never().
  absl::Duration remaining() const {
    if (never()) return absl::InfiniteDuration();
    return std::max(absl::FromChrono(at_ - Clock::now()), absl::ZeroDuration());
  }
  // For poll(2): -1 for Never(), else rounded up, so that a wait does not end early and spin.
  int remaining_poll_ms() const {
    if (never()) return -1;
    const absl::Duration up = absl::Ceil(remaining(), absl::Milliseconds(1));
    return static_cast<int>(
        std::min<int64_t>(absl::ToInt64Milliseconds(up), int64_t{24} * 3600 * 1000));
  }

 private:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

// Milliseconds since the Unix epoch, for records only.
int64_t UnixMillis();

// Seconds on the monotonic clock since an arbitrary start; differences are durations.
absl::Duration MonotonicNow();

}  // namespace hone
