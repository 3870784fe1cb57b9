#pragma once

#include <cstdint>

namespace hone {

// What this process could still allocate without swapping: the least of free memory and what its
// cgroup and resource limits leave.
int64_t AvailableMemoryBytes();

}  // namespace hone
