#include "runtime/launch/device_fingerprint.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/sha256.h"

namespace hone {

double DeviceFingerprint::PeakMemoryGbPerS() const {
  return 2.0 * static_cast<double>(memory_clock_khz) * memory_bus_bits / 8 / 1e6;
}

double DeviceFingerprint::PeakFlopPerNs() const {
  return 8192.0 * sm_count * static_cast<double>(clock_khz) / 1e6;
}

std::string DeviceFingerprint::Canonical() const {
  return absl::StrCat("kind=", kind, "\narchitecture=", architecture, "\nsm_count=", sm_count,
                      "\nclock_khz=", clock_khz, "\nmemory_clock_khz=", memory_clock_khz,
                      "\nmemory_bus_bits=", memory_bus_bits, "\nl2_bytes=", l2_bytes,
                      "\nmemory_bytes=", memory_bytes, "\nslice=", slice, "\n");
}

std::string DeviceFingerprint::Key() const { return Sha256Hex(Canonical()); }

DeviceFacts DeviceInfo::Facts() const {
  return {{"device.sm_count", fingerprint.sm_count},
          {"device.shared_bytes_per_block_max", limits.shared_bytes_per_block_max},
          {"device.max_threads_per_block", limits.max_threads_per_block},
          {"device.l2_bytes", fingerprint.l2_bytes},
          {"device.warp_size", limits.warp_size}};
}

bool IsDeviceFact(absl::string_view name) {
  static const DeviceFacts* const facts = new DeviceFacts(DeviceInfo().Facts());
  return facts->count(std::string(name)) > 0;
}

}  // namespace hone
