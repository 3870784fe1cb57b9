// A measuring lane that leaves its device alone for part of the time.
#pragma once

#include <functional>
#include <string>

#include "runtime/device/profiler.h"

namespace hone {

// Rests after every use of the device, so that uses take at most a share of the time. Not
// thread-safe, as any Profiler.
class PacedProfiler : public Profiler {
 public:
  // `duty` above 0; 1 and more: no rest. `cancelled` ends a rest early. `profiler` must outlive
  // this object.
  PacedProfiler(Profiler& profiler, double duty, std::function<bool()> cancelled)
      : profiler_(profiler), duty_(duty), cancelled_(std::move(cancelled)) {}

  absl::StatusOr<DeviceInfo> Info() override { return profiler_.Info(); }
  void WarmUp() override { profiler_.WarmUp(); }
  absl::Status Begin(const ProfileProblem& problem) override;
  absl::StatusOr<CheckResult> Check(const ProfileCandidate& candidate) override;
  absl::StatusOr<SampleResult> Sample(int64_t candidate_id, int count) override;
  void Forget(int64_t candidate_id) override { profiler_.Forget(candidate_id); }
  void End() override { profiler_.End(); }
  void Release() override { profiler_.Release(); }

 private:
  void RestAfter(absl::Duration use) const;

  Profiler& profiler_;
  const double duty_;
  const std::function<bool()> cancelled_;
};

}  // namespace hone
