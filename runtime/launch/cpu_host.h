// The CPU that kernels run on.
#pragma once

namespace hone {

// Hardware threads this process may use: affinity and cgroup quota (rounded up), at least 1, at
// most 64, beyond which waking threads costs more than most launches.
int UsableHardwareThreads();

// The x86-64 level that kernels may be compiled for here: 3 (AVX2, FMA, BMI), else 0, the baseline.
int HostIsaLevel();

}  // namespace hone
