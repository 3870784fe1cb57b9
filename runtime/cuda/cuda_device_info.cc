#include "runtime/cuda/cuda_device_info.h"

#include <array>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/cuda/nvml.h"

extern char** environ;

namespace hone {
namespace {

// Boards of one kind report totals that differ by what the driver keeps for itself.
constexpr int64_t kMemoryGranule = int64_t{1} << 30;

// The variable that keeps a process out of any MPS: see WorkerProfiler, which sets it.
constexpr absl::string_view kMpsOptOut = "CUDA_MPS_PIPE_DIRECTORY=/dev/null";

absl::StatusOr<CUdevice> DeviceAt(const CudaDriver& driver, int index) {
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

absl::StatusOr<DeviceInfo> Describe(const CudaDriver& driver, int index, const Nvml* nvml) {
  HONE_ASSIGN_OR_RETURN(const CUdevice device, DeviceAt(driver, index));
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
  if (nvml != nullptr) info.driver = nvml->DriverVersion();
  return info;
}

}  // namespace

std::string ArchitectureOf(int major, int minor) {
  return absl::StrCat("sm_", major, minor, major >= 9 ? "a" : "");
}

std::string SliceOf(const std::string& device_name) {
  const size_t at = device_name.find("MIG ");
  return at == std::string::npos ? "" : device_name.substr(at);
}

absl::StatusOr<DeviceInfo> DescribeCudaDevice(const CudaDriver& driver, int index) {
  return Describe(driver, index, Nvml::Open().get());
}

absl::StatusOr<std::vector<DeviceInfo>> EnumerateCudaDevices() {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  int count = 0;
  HONE_CUDA_RETURN_IF_ERROR(*driver, DeviceGetCount(&count));
  const std::unique_ptr<Nvml> nvml = Nvml::Open();
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    HONE_ASSIGN_OR_RETURN(DeviceInfo info, Describe(*driver, i, nvml.get()));
    devices.push_back(std::move(info));
  }
  return devices;
}

absl::StatusOr<DeviceActivity> CudaDeviceActivity(int index) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  HONE_ASSIGN_OR_RETURN(const CUdevice device, DeviceAt(*driver, index));
  std::array<char, 64> pci_bus_id{};
  HONE_CUDA_RETURN_IF_ERROR(*driver,
                            DeviceGetPCIBusId(pci_bus_id.data(), pci_bus_id.size(), device));
  const std::unique_ptr<Nvml> nvml = Nvml::Open();
  return nvml == nullptr ? DeviceActivity() : nvml->Activity(pci_bus_id.data());
}

absl::Status MayMeasureOn(const CudaDriver& driver, int index) {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const absl::string_view text = *variable;
    if (!absl::StartsWith(text, "CUDA_MPS_") || text == kMpsOptOut) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(text.substr(0, text.find('=')),
                     " is set: a fault while measuring would reach the other clients of that MPS; "
                     "measure without it"));
  }
  HONE_ASSIGN_OR_RETURN(const CUdevice device, DeviceAt(driver, index));
  const int mode = Attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  if (mode == CU_COMPUTEMODE_DEFAULT) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("CUDA device ", index, " is in compute mode ",
                   mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS ? "EXCLUSIVE_PROCESS" : "PROHIBITED",
                   ": measuring would shut out its other users or be shut out; set it to DEFAULT "
                   "(nvidia-smi --compute-mode=0)"));
}

}  // namespace hone
