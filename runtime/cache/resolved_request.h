// A request against a template's domain and the daemon's devices: everything a look-up needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/profiler.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/keys.h"
#include "runtime/kernel/measurement.h"
#include "runtime/kernel/problem.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {

struct KernelRequest;

struct ResolvedRequest {
  KernelTemplatePtr kernel_template;
  Problem problem;
  std::string architecture;
  std::optional<DeviceFingerprint> device;  // absent: only the architecture is known
  DeviceFacts facts;                        // empty without a local device
  int driver_version = 0;
  std::string driver;  // of the local device; empty without one
  std::string policy;  // MeasuringPolicy's text
  bool local = false;  // a lane of this daemon can measure it
  Numerics numerics = Numerics::kWithinTolerance;

  // Nullopt without a device: timings mean nothing then.
  std::optional<Key> TuningKeyOf(const Problem& of) const {
    if (!device) return std::nullopt;
    return TuningKey(*kernel_template, of, *device, policy);
  }
  // Equal for requests that have the same answer.
  std::string Identity() const {
    return kernel_template->digest() + '\n' + problem.ToString() + '\n' + architecture + '\n' +
           (device ? device->Key() : std::string()) + '\n' + std::to_string(driver_version) + '\n' +
           std::to_string(static_cast<int>(numerics));
  }
};

// INVALID_ARGUMENT naming the parameter or device index, FAILED_PRECONDITION (NO_DEVICE) without a
// device and architecture to fall back on.
absl::StatusOr<ResolvedRequest> ResolveRequest(const KernelRequest& request,
                                               const std::vector<DeviceInfo>& devices,
                                               const MeasuringPolicy& policy);

}  // namespace hone
