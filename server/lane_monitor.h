// What a measuring lane is doing, for GetStatus and health.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/device/profiler.h"

namespace hone {

struct LaneState {
  // "idle", "measuring", "unavailable".
  std::string state = "idle";
  std::string detail;  // why it is unavailable
  int64_t worker_pid = 0;
};

// Thread-safe.
class LaneMonitor {
 public:
  // `worker_pid` tells the worker's process, 0 when there is none; from any thread.
  explicit LaneMonitor(std::function<int64_t()> worker_pid) : worker_pid_(std::move(worker_pid)) {}

  LaneState Get() const;
  void Set(std::string state, std::string detail = "");

 private:
  const std::function<int64_t()> worker_pid_;
  mutable Mutex mutex_;
  std::string state_ ABSL_GUARDED_BY(mutex_) = "idle";
  std::string detail_ ABSL_GUARDED_BY(mutex_);
};

// A Profiler that tells a monitor what the one behind it does. A lane whose own calls fail is
// unavailable until one succeeds again; a rejected candidate is not a failure.
class MonitoredProfiler : public Profiler {
 public:
  MonitoredProfiler(std::unique_ptr<Profiler> profiler, std::shared_ptr<LaneMonitor> monitor)
      : profiler_(std::move(profiler)), monitor_(std::move(monitor)) {}

  absl::StatusOr<DeviceInfo> Info() override { return profiler_->Info(); }
  void WarmUp() override;
  absl::Status Begin(const ProfileProblem& problem) override;
  absl::StatusOr<CheckResult> Check(const ProfileCandidate& candidate) override;
  absl::StatusOr<SampleResult> Sample(int64_t candidate_id, int count) override;
  void Forget(int64_t candidate_id) override { profiler_->Forget(candidate_id); }
  void End() override;
  absl::StatusOr<DeviceCeilings> MeasureCeilings(int64_t memory_bytes_max) override;
  void Release() override;

 private:
  void Report(const absl::Status& status);

  const std::unique_ptr<Profiler> profiler_;
  const std::shared_ptr<LaneMonitor> monitor_;
  bool failed_ = false;  // the lane's thread only
};

}  // namespace hone
