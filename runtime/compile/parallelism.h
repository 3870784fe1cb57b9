// How many compiles this machine, or the part of it that a cgroup leaves, can run at once.
#pragma once

#include <cstdint>
#include <string>

namespace hone {

struct CgroupLimits {
  double cpus = 0;           // quota over period; 0: none
  int64_t memory_bytes = 0;  // 0: none
};

// The tightest limits on the way from this process's cgroup to the root, for cgroup v2 and v1. What
// cannot be read limits nothing. `root` stands for "/" in tests.
CgroupLimits ReadCgroupLimits(const std::string& root = "");

// The least of the CPUs (quota or affinity), memory over what a worker may use, and 16; at least 1.
int DefaultCompileParallelism(int64_t worker_memory_bytes, const CgroupLimits& limits);

}  // namespace hone
