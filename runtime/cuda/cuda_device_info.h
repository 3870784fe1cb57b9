// What the CUDA driver says about its devices, without making a context.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/device/device_activity.h"
#include "runtime/kernel/device_fingerprint.h"
#include "runtime/launch/cuda_driver.h"

namespace hone {

// All devices that this process sees (CUDA_VISIBLE_DEVICES counts). FAILED_PRECONDITION without a
// driver.
absl::StatusOr<std::vector<DeviceInfo>> EnumerateCudaDevices();

// FAILED_PRECONDITION if there is no such device; the text says how many there are.
absl::StatusOr<DeviceInfo> DescribeCudaDevice(const CudaDriver& driver, int index);

// Who uses a device now. Nothing is told where there is no NVML. FAILED_PRECONDITION as above.
absl::StatusOr<DeviceActivity> CudaDeviceActivity(int index);

// OK if a context may be made here. FAILED_PRECONDITION names the cause: compute mode
// EXCLUSIVE_PROCESS or PROHIBITED, or CUDA_MPS_ variables that would join another process's MPS.
absl::Status MayMeasureOn(const CudaDriver& driver, int index);

// The compile target of a compute capability: "sm_90a" from 9.0 on, where only the architecture's
// own target has all its instructions; "sm_86" before.
std::string ArchitectureOf(int major, int minor);

// "MIG 1g.18gb" from the name of a slice; empty for a whole device.
std::string SliceOf(const std::string& device_name);

}  // namespace hone
