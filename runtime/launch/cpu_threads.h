#pragma once

namespace hone {

// Hardware threads this process may use: affinity and cgroup quota (rounded up), at least 1, at
// most 64, beyond which waking threads costs more than most launches.
int UsableHardwareThreads();

}  // namespace hone
