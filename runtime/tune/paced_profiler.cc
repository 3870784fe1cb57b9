#include "runtime/tune/paced_profiler.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace hone {
namespace {

// How soon a cancelled tune notices.
constexpr absl::Duration kNap = absl::Milliseconds(50);

}  // namespace

void PacedProfiler::RestAfter(absl::Duration use) const {
  if (duty_ >= 1) return;
  const absl::Time end = absl::Now() + use * (1 / duty_ - 1);
  for (absl::Duration left = end - absl::Now(); left > absl::ZeroDuration() && !cancelled_();
       left = end - absl::Now()) {
    absl::SleepFor(std::min(left, kNap));
  }
}

absl::Status PacedProfiler::Begin(const ProfileProblem& problem) {
  const absl::Time begin = absl::Now();
  absl::Status status = profiler_.Begin(problem);
  RestAfter(absl::Now() - begin);
  return status;
}

absl::StatusOr<CheckResult> PacedProfiler::Check(const ProfileCandidate& candidate) {
  const absl::Time begin = absl::Now();
  auto result = profiler_.Check(candidate);
  RestAfter(absl::Now() - begin);
  return result;
}

absl::StatusOr<SampleResult> PacedProfiler::Sample(int64_t candidate_id, int count) {
  const absl::Time begin = absl::Now();
  auto result = profiler_.Sample(candidate_id, count);
  RestAfter(absl::Now() - begin);
  return result;
}

}  // namespace hone
