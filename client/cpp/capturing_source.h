// A source of kernels whose launches are recorded.
#pragma once

#include <memory>

#include "client/cpp/kernel_source.h"
#include "client/cpp/launch_capture.h"

namespace hone {

// `source` with every kernel recorded in `capture`, which must outlive it; nullptr: `source`.
std::unique_ptr<KernelSource> RecordLaunches(std::unique_ptr<KernelSource> source,
                                             LaunchCapture* capture);

}  // namespace hone
