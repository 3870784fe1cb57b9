// Whether a candidate can launch on a device, from what its artifact says about itself.
#pragma once

#include <optional>

#include "runtime/kernel/measurement.h"
#include "runtime/kernel/program.h"
#include "runtime/launch/device_fingerprint.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {

// nullopt if every step fits; else kResources with needed and limit. Nothing is launched.
std::optional<Rejection> CheckResources(const Artifact& artifact, const ResolvedLaunch& launch,
                                        const DeviceLimits& limits);

}  // namespace hone
