#include "runtime/launch/cuda_device_info.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// Boards of one kind report totals that differ by what the driver keeps for itself.
constexpr int64_t kMemoryGranule = int64_t{1} << 30;

// Attributes that a driver does not know count as 0.
int Attribute(const CudaDriver& driver, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  if (driver.DeviceGetAttribute(&value, attribute, device) != CUDA_SUCCESS) return 0;
  return value;
}

DeviceFingerprint Fingerprint(const CudaDriver& driver, CUdevice device, const DeviceInfo& info,
                              size_t total_memory) {
  const auto attribute = [&](CUdevice_attribute a) { return Attribute(driver, device, a); };
  DeviceFingerprint fingerprint;
  fingerprint.kind = "cuda";
  fingerprint.architecture = info.architecture;
  fingerprint.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  fingerprint.clock_khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  fingerprint.memory_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  fingerprint.memory_bus_bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  fingerprint.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  fingerprint.memory_bytes = static_cast<int64_t>(total_memory) / kMemoryGranule * kMemoryGranule;
  fingerprint.slice = SliceOf(info.name);
  return fingerprint;
}

DeviceLimits Limits(const CudaDriver& driver, CUdevice device, int compute_major) {
  const auto attribute = [&](CUdevice_attribute a) { return Attribute(driver, device, a); };
  DeviceLimits limits;
  limits.max_threads_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  limits.shared_bytes_per_block_max =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  limits.shared_bytes_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  limits.registers_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  // 16 where a kernel asks for a non-portable size, which the launcher does.
  limits.max_cluster_size =
      attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0 ? 1 : (compute_major == 12 ? 8 : 16);
  limits.warp_size = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  return limits;
}

}  // namespace

std::string ArchitectureOf(int major, int minor) {
  return absl::StrCat("sm_", major, minor, major >= 9 ? "a" : "");
}

std::string SliceOf(const std::string& device_name) {
  const size_t at = device_name.find("MIG ");
  return at == std::string::npos ? "" : device_name.substr(at);
}

absl::StatusOr<CUdevice> CudaDeviceAt(const CudaDriver& driver, int index) {
  int count = 0;
  HONE_CUDA_RETURN_IF_ERROR(driver, DeviceGetCount(&count));
  if (index < 0 || index >= count) {
    return absl::FailedPreconditionError(
        absl::StrCat("no CUDA device ", index, ": this process sees ", count));
  }
  CUdevice device = 0;
  HONE_CUDA_RETURN_IF_ERROR(driver, DeviceGet(&device, index));
  return device;
}

absl::StatusOr<DeviceInfo> DescribeCudaDevice(const CudaDriver& driver, int index) {
  HONE_ASSIGN_OR_RETURN(const CUdevice device, CudaDeviceAt(driver, index));
  DeviceInfo info;
  info.index = index;
  std::array<char, 256> name{};
  HONE_CUDA_RETURN_IF_ERROR(driver, DeviceGetName(name.data(), name.size(), device));
  info.name = name.data();
  const int major = Attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  info.architecture = ArchitectureOf(
      major, Attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  size_t total_memory = 0;
  HONE_CUDA_RETURN_IF_ERROR(driver, DeviceTotalMem(&total_memory, device));
  info.fingerprint = Fingerprint(driver, device, info, total_memory);
  info.limits = Limits(driver, device, major);
  HONE_CUDA_RETURN_IF_ERROR(driver, DriverGetVersion(&info.driver_version));
  return info;
}

}  // namespace hone
