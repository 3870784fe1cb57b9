#include "runtime/device/device_activity.h"

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

// A device that nobody uses has next to nothing allocated (what the driver reserves is not
// counted); a bare context takes some 200 MB and more.
constexpr int64_t kUsedBytesIdle = int64_t{128} << 20;
// Monitoring alone shows up as a percent or two; the CPU device shares the host with its services.
constexpr int kUtilizationIdlePercent = 10;

}  // namespace

std::string ForeignUse(const DeviceActivity& activity, bool own_process) {
  const int others = activity.processes - (own_process ? 1 : 0);
  if (others > 0) return absl::StrCat(others, others == 1 ? " other process" : " other processes");
  if (own_process) return "";
  if (activity.processes < 0 && activity.used_bytes < 0 && activity.utilization_percent < 0) {
    return "use that cannot be told";
  }
  if (activity.used_bytes > kUsedBytesIdle) {
    return absl::StrCat(activity.used_bytes >> 20, " MiB of its memory in use");
  }
  if (activity.utilization_percent > kUtilizationIdlePercent) {
    return absl::StrCat(activity.utilization_percent, " % busy");
  }
  return "";
}

}  // namespace hone
