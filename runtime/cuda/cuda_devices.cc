#include "runtime/cuda/cuda_devices.h"

#include <array>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/cuda/nvml.h"
#include "runtime/launch/cuda_device_info.h"

extern char** environ;

namespace hone {
namespace {

// The variable that keeps a process out of any MPS: see WorkerProfiler, which sets it.
constexpr absl::string_view kMpsOptOut = "CUDA_MPS_PIPE_DIRECTORY=/dev/null";

absl::StatusOr<DeviceInfo> Identify(const CudaDriver& driver, int index, const Nvml* nvml) {
  HONE_ASSIGN_OR_RETURN(DeviceInfo info, DescribeCudaDevice(driver, index));
  if (nvml != nullptr) info.driver = nvml->DriverVersion();
  return info;
}

}  // namespace

absl::StatusOr<DeviceInfo> IdentifyCudaDevice(const CudaDriver& driver, int index) {
  return Identify(driver, index, Nvml::Open().get());
}

absl::StatusOr<std::vector<DeviceInfo>> EnumerateCudaDevices() {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  int count = 0;
  HONE_CUDA_RETURN_IF_ERROR(*driver, DeviceGetCount(&count));
  const std::unique_ptr<Nvml> nvml = Nvml::Open();
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    HONE_ASSIGN_OR_RETURN(DeviceInfo info, Identify(*driver, i, nvml.get()));
    devices.push_back(std::move(info));
  }
  return devices;
}

absl::StatusOr<DeviceActivity> CudaDeviceActivity(int index) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  HONE_ASSIGN_OR_RETURN(const CUdevice device, CudaDeviceAt(*driver, index));
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
  HONE_ASSIGN_OR_RETURN(const CUdevice device, CudaDeviceAt(driver, index));
  int mode = CU_COMPUTEMODE_DEFAULT;
  HONE_CUDA_RETURN_IF_ERROR(driver,
                            DeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device));
  if (mode == CU_COMPUTEMODE_DEFAULT) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("CUDA device ", index, " is in compute mode ",
                   mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS ? "EXCLUSIVE_PROCESS" : "PROHIBITED",
                   ": measuring would shut out its other users or be shut out; set it to DEFAULT "
                   "(nvidia-smi --compute-mode=0)"));
}

}  // namespace hone
