// What callers need to know of a kernel to pack its arguments by position.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/hone/kernel.h"
#include "runtime/launch/launch_plan.h"

namespace hone {

struct BufferOutline {
  std::string name;
  DataType dtype = DataType::kF32;
  Access access = Access::kRead;
  int rank = 0;
  bool optional = false;
};

// Where the value of a dynamic size stands in the shapes of the buffers.
struct SizeSource {
  size_t size = 0;       // position in LaunchNames::sizes
  size_t buffer = 0;     // position in LaunchNames::buffers
  size_t dimension = 0;  // of that buffer
};

// Immutable. Of the first variant: all take the same arguments.
struct KernelOutline {
  std::vector<BufferOutline> buffers;  // as LaunchNames::buffers
  std::vector<SizeSource> size_sources;

  static KernelOutline Of(const Kernel& kernel);
};

// Fills those of `sizes` that are an extent of a buffer given with its shape; the others stay.
// INVALID_ARGUMENT when two buffers disagree about a size, with both, or a buffer has another rank.
// Allocates nothing when OK.
absl::Status SizesFromShapes(const KernelOutline& outline, const LaunchNames& names,
                             const PlanBuffer* buffers, int64_t* sizes);

}  // namespace hone
