// The reference device: this machine's cores, through CpuLauncher.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace hone {

// Launches are synchronous. Memory is host memory between ranges that fault, so an access far out
// of bounds ends the process (SIGSEGV), as it should: the process is a worker. Launch and TimeNs
// return CpuLauncher's errors; after ABORTED (a kernel trapped) the device stays usable, unlike a
// GPU.
std::unique_ptr<Device> MakeCpuDevice();

}  // namespace hone
