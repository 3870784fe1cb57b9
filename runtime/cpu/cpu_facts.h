// What this machine's processor is.
#pragma once

#include <cstdint>

#include "runtime/device/device_activity.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {

// Name, fingerprint and limits of the CPU device here. Facts that the system does not tell are 0.
DeviceInfo ReadCpuInfo();

// Bytes of the largest cache of any CPU; 0 if not told.
int64_t LastLevelCacheBytes();

// Clock of the first CPU now in MHz; 0 if not told.
int CurrentClockMhz();

// How busy all processors are with whatever it is; takes a tenth of a second to see.
DeviceActivity CpuActivity();

}  // namespace hone
