// Whether somebody else uses a device, so that tuning can keep out of the way.
#pragma once

#include <cstdint>
#include <string>

namespace hone {

// As NVML (for the CPU device: the kernel) tells it. Containers and MIG slices hide some of it.
struct DeviceActivity {
  int processes = -1;            // with a context or a graphics state on the device; -1: not told
  int64_t used_bytes = -1;       // of device memory, by whomever; -1: not told
  int utilization_percent = -1;  // over the last moments, by whomever; -1: not told
};

// Who uses the device besides us, for people ("2 other processes"); empty: nobody that can be seen.
// Where nothing is told, somebody might. `own_process`: our measuring worker is there too. Then
// memory and utilisation say nothing about others, and only processes count.
std::string ForeignUse(const DeviceActivity& activity, bool own_process);

}  // namespace hone
