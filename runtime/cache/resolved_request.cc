#include "runtime/cache/resolved_request.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"
#include "runtime/base/status_macros.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/kernel/field_error.h"

namespace hone {

absl::StatusOr<ResolvedRequest> ResolveRequest(const KernelRequest& request,
                                               const std::vector<DeviceInfo>& devices,
                                               const MeasuringPolicy& policy) {
  ResolvedRequest resolved;
  resolved.kernel_template = request.kernel_template;
  HONE_ASSIGN_OR_RETURN(resolved.problem,
                        Problem::Create(*request.kernel_template, request.values));
  resolved.policy = policy.ToString();
  resolved.numerics = request.numerics;

  const TargetSpec& target = request.target;
  const DeviceInfo* local = nullptr;
  if (target.device) {
    resolved.device = target.device;
    resolved.architecture =
        target.architecture.empty() ? target.device->architecture : target.architecture;
    for (const DeviceInfo& device : devices) {
      if (device.fingerprint == *target.device) local = &device;
    }
    if (resolved.device->kind == "cpu" && target.architecture.empty()) {
      resolved.architecture = "cpu";
    }
  } else if (!target.architecture.empty()) {
    resolved.architecture = target.architecture;
    for (const DeviceInfo& device : devices) {
      if (local == nullptr && device.architecture == target.architecture) local = &device;
    }
  } else {
    if (target.device_index < 0 ||
        (target.device_index >= static_cast<int>(devices.size()) && !devices.empty())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "target.device_index: ", target.device_index, " does not exist; this daemon ",
          "has devices 0 to ", static_cast<int>(devices.size()) - 1));
    }
    if (devices.empty()) {
      ErrorInfo info;
      info.reason = "NO_DEVICE";
      return WithErrorInfo(
          absl::FailedPreconditionError("target: this daemon has no device; name an architecture, "
                                        "for example sm_90a"),
          info);
    }
    local = &devices[static_cast<size_t>(target.device_index)];
  }
  if (local != nullptr) {
    resolved.device = local->fingerprint;
    resolved.architecture = local->architecture;
    resolved.facts = local->Facts();
    resolved.driver = local->driver;
    resolved.local = true;
  }
  resolved.driver_version = target.driver_version != 0 ? target.driver_version
                            : local != nullptr         ? local->driver_version
                                                       : 0;
  const absl::Status supported =
      request.kernel_template->SupportsArchitecture(resolved.architecture);
  // What is no architecture's name came from the caller.
  if (absl::IsInvalidArgument(supported)) return AtField("target.architecture", supported);
  HONE_RETURN_IF_ERROR(supported);
  return resolved;
}

}  // namespace hone
