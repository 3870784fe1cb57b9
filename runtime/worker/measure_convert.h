// The nouns of measuring on the wire between daemon and worker. What comes from a worker is not
// trusted: it ran foreign code.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hone/v1/worker.pb.h"
#include "runtime/device/profiler.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {

v1::worker::WireDeviceInfo ToWire(const DeviceInfo& info);
DeviceInfo FromWire(const v1::worker::WireDeviceInfo& wire);

v1::worker::BeginRequest ToWire(const ProfileProblem& problem);
// INVALID_ARGUMENT names the field; DATA_LOSS when an artifact does not match its hash.
absl::StatusOr<ProfileProblem> FromWire(const v1::worker::BeginRequest& wire);

v1::worker::CheckRequest ToWire(const ProfileCandidate& candidate);
absl::StatusOr<ProfileCandidate> FromWire(const v1::worker::CheckRequest& wire);

v1::worker::CheckReply ToWire(const CheckResult& result);
absl::StatusOr<CheckResult> FromWire(const v1::worker::CheckReply& wire);

v1::worker::SampleReply ToWire(const SampleResult& result);
absl::StatusOr<SampleResult> FromWire(const v1::worker::SampleReply& wire);

v1::worker::CeilingsReply ToWire(const DeviceCeilings& ceilings);
// DATA_LOSS for a figure that is none. When and by which driver is not on the wire.
absl::StatusOr<DeviceCeilings> FromWire(const v1::worker::CeilingsReply& wire);

}  // namespace hone
