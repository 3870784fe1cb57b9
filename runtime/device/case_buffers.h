// The buffers of a problem at given sizes, and the data that go into them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device.h"
#include "runtime/device/guarded_arena.h"
#include "runtime/device/profiler.h"

namespace hone {

// One set of inputs to check with: dynamic sizes and the optional buffers left out.
struct CaseSpec {
  SizeBindings sizes;
  std::set<std::string> absent;

  // "n=1023", "n=1023 without bias"; "declared sizes" when no size is dynamic.
  std::string Label() const;
};

// A buffer argument with its extent known.
struct CaseBuffer {
  std::string name;
  DataType dtype = DataType::kF32;
  Access access = Access::kRead;
  int64_t bytes = 0;
  int64_t elements = 0;      // from the first to the last, gaps of strides included
  int64_t own_elements = 0;  // of the shape alone
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements
  FillSpec fill;
  bool generated = false;  // by the template's own generator, not by `fill`
};

// The buffers that are present. Inputs without a declared init are NORMAL; the seed depends on the
// argument's name only.
absl::StatusOr<std::vector<CaseBuffer>> EvaluateBuffers(const ProfileProblem& problem,
                                                        const SizeBindings& facts,
                                                        const CaseSpec& spec);

// The zone around inputs is NaN for kernels that read it, around all else a value that a copied NaN
// does not repair.
GuardedBuffer Guarded(const CaseBuffer& buffer, int64_t alignment);

// The least alignment at which the recipe accepts this buffer.
int64_t LeastAlignment(const LaunchRecipe& recipe, const CaseBuffer& buffer);

}  // namespace hone
