// Measures what a device reaches, with kernels of our own.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device.h"
#include "runtime/kernel/device_ceilings.h"
#include "runtime/kernel/program.h"

namespace hone {

// `kernels` is CeilingProgram's for the device. Takes about a second and, meanwhile, up to two
// buffers of 1 GiB: each a quarter of the free memory at most, and all it takes together at most
// `memory_bytes_max`, 0: no limit. Of several runs the fastest counts: others only show what
// disturbed them. RESOURCE_EXHAUSTED when not even small buffers fit; other errors are the
// device's.
absl::StatusOr<std::vector<Ceiling>> MeasureCeilings(Device& device, const Artifact& kernels,
                                                     int64_t memory_bytes_max);

}  // namespace hone
