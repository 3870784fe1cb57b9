// What the CUDA driver says about its devices, without making a context. The daemon and its clients
// describe a device with the same code, so that containers agree on what it is.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/launch/cuda_driver.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {

// FAILED_PRECONDITION if there is no such device; the text says how many there are.
absl::StatusOr<CUdevice> CudaDeviceAt(const CudaDriver& driver, int index);

// All but DeviceInfo::driver. Errors as CudaDeviceAt.
absl::StatusOr<DeviceInfo> DescribeCudaDevice(const CudaDriver& driver, int index);

// The compile target of a compute capability: "sm_90a" from 9.0 on, where only the architecture's
// own target has all its instructions; "sm_86" before.
std::string ArchitectureOf(int major, int minor);

// "MIG 1g.18gb" from the name of a slice; empty for a whole device.
std::string SliceOf(const std::string& device_name);

}  // namespace hone
