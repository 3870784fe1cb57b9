// What to compile for a device.
#pragma once

#include <string>
#include <vector>

#include "runtime/compile/compiler.h"

namespace hone {

// Targets whose binaries run on a device of this architecture ("sm_103a"), best first: its own,
// its family's, the plain one, then those of earlier minor versions. Never PTX, which would depend
// on the driver's compiler. "cpu" has itself only.
std::vector<std::string> TargetsFor(const std::string& device_architecture);

// The first of them that `compiler` makes for this driver: an NVRTC older than the device knows
// only later ones. The device's own where it makes none, so that compiling says why.
std::string DeviceTarget(const Compiler& compiler, const std::string& device_architecture,
                         int driver_version);

}  // namespace hone
