// The CUDA devices of this process as a measuring worker knows them: with what NVML adds.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/device/device_activity.h"
#include "runtime/launch/cuda_driver.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {

// DescribeCudaDevice, and the driver's version in words.
absl::StatusOr<DeviceInfo> IdentifyCudaDevice(const CudaDriver& driver, int index);

// All devices that this process sees (CUDA_VISIBLE_DEVICES counts). FAILED_PRECONDITION without a
// driver.
absl::StatusOr<std::vector<DeviceInfo>> EnumerateCudaDevices();

// Who uses a device now. Nothing is told where there is no NVML. FAILED_PRECONDITION if there is no
// such device.
absl::StatusOr<DeviceActivity> CudaDeviceActivity(int index);

// OK if a context may be made here. FAILED_PRECONDITION names the cause: compute mode
// EXCLUSIVE_PROCESS or PROHIBITED, or CUDA_MPS_ variables that would join another process's MPS.
absl::Status MayMeasureOn(const CudaDriver& driver, int index);

}  // namespace hone
