// The device that a process asks kernels for.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hone/v1/kernel_service.pb.h"

struct CUstream_st;

namespace hone {

// The facts of the device of the CUDA context that is current on this thread, and the driver's
// version. Empty, which is the daemon's first device, where there is no driver or no context.
absl::StatusOr<v1::Target> TargetOfCurrentContext();

// Index of the device whose context is current on this thread; -1: none, or no driver.
int CurrentCudaDevice();

// Whether a stream of the context that is current on this thread is being captured. Makes no
// synchronising call.
bool IsCapturingInCurrentContext(CUstream_st* stream);

// Makes the device's primary context current on this thread, and keeps it for the process.
absl::Status UseCudaDevice(int device);

}  // namespace hone
