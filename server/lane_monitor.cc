#include "server/lane_monitor.h"

#include <utility>

namespace hone {

LaneState LaneMonitor::Get() const {
  LaneState state;
  state.worker_pid = worker_pid_ ? worker_pid_() : 0;
  MutexLock lock(&mutex_);
  state.state = state_;
  state.detail = detail_;
  return state;
}

void LaneMonitor::Set(std::string state, std::string detail) {
  MutexLock lock(&mutex_);
  state_ = std::move(state);
  detail_ = std::move(detail);
}

void MonitoredProfiler::Report(const absl::Status& status) {
  // Too little memory for one problem says nothing about the lane.
  failed_ = !status.ok() && status.code() != absl::StatusCode::kResourceExhausted;
  if (failed_) {
    monitor_->Set("unavailable", std::string(status.message()));
  } else {
    monitor_->Set("measuring");
  }
}

void MonitoredProfiler::WarmUp() {
  monitor_->Set("measuring");
  profiler_->WarmUp();
}

absl::Status MonitoredProfiler::Begin(const ProfileProblem& problem) {
  monitor_->Set("measuring");
  absl::Status status = profiler_->Begin(problem);
  Report(status);
  return status;
}

absl::StatusOr<CheckResult> MonitoredProfiler::Check(const ProfileCandidate& candidate) {
  auto result = profiler_->Check(candidate);
  Report(result.status());
  return result;
}

absl::StatusOr<SampleResult> MonitoredProfiler::Sample(int64_t candidate_id, int count) {
  auto result = profiler_->Sample(candidate_id, count);
  Report(result.status());
  return result;
}

void MonitoredProfiler::End() {
  profiler_->End();
  if (!failed_) monitor_->Set("idle");
}

// A lane that measures no ceilings may measure kernels all the same.
absl::StatusOr<DeviceCeilings> MonitoredProfiler::MeasureCeilings(int64_t memory_bytes_max) {
  if (!failed_) monitor_->Set("measuring");
  auto ceilings = profiler_->MeasureCeilings(memory_bytes_max);
  if (!failed_) monitor_->Set("idle");
  return ceilings;
}

void MonitoredProfiler::Release() {
  profiler_->Release();
  if (!failed_) monitor_->Set("idle");
}

}  // namespace hone
