// A CUDA device inside a measuring worker.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/device/device.h"
#include "runtime/kernel/program.h"

namespace hone {

// Makes the device's context in this process. `support` is SupportProgram's artifact for the
// device's architecture. FAILED_PRECONDITION: no driver, no such device, or measuring is not
// allowed there (see MayMeasureOn); RESOURCE_EXHAUSTED: no memory for a context.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int index, const Artifact& support);

}  // namespace hone
