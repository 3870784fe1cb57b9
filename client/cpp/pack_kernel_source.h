// A pack behind the daemon as a source of kernels.
#pragma once

#include <memory>

#include "client/cpp/kernel_pack.h"
#include "client/cpp/kernel_source.h"

namespace hone {

// Asks `daemon` and, when it is unreachable, `pack`; what the daemon answers, errors included, is
// the answer. Kernels of the pack say so (Kernel::from_pack), have generation 0, because the pack's
// generations count changes of another store, and are NEAREST where other dynamic sizes were asked
// for than they were tuned for. When neither has an answer the error tells both reasons.
std::unique_ptr<KernelSource> MakePackFallback(std::unique_ptr<KernelSource> daemon,
                                               std::shared_ptr<const KernelPack> pack,
                                               bool enable_cpu_device);

}  // namespace hone
