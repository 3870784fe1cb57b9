// Problems and candidates for tests of the measuring lane, without templates.
#pragma once

#include <string>
#include <vector>

#include "runtime/device/profiler.h"

namespace hone {

// copy_1d over n floats: dst, src, n. With a reference, exact.
ProfileProblem CopyProblem(int64_t n);
// Entry copy_1d<float, XBLOCK>; alignment of dst and src in bytes.
ProfileCandidate CopyCandidate(int64_t id, int64_t xblock, std::vector<int64_t> check_sizes,
                               int64_t alignment_bytes = 4);

// scale_1d: x[i] *= 1.5 in place over n floats: x, n.
ProfileProblem ScaleProblem(int64_t n);
ProfileCandidate ScaleCandidate(int64_t id, int64_t xblock, std::vector<int64_t> check_sizes);

RecipeArgument BufferArgumentOf(const std::string& name, Access access,
                                DataType dtype = DataType::kF32);
// One step `entry` over all arguments, grid ceil_div(n, block).
LaunchRecipe RecipeOf(std::vector<RecipeArgument> arguments, const std::string& entry,
                      int64_t block);
// The recipe's entries compiled by the fake compiler.
Artifact ArtifactOf(const std::vector<std::string>& entries);
std::vector<SizeBindings> SizesOf(const std::vector<int64_t>& ns);

}  // namespace hone
