// From a recipe and one launch's sizes, pointers and scalars to numbers a driver takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/launch/launch_recipe.h"

namespace hone {

// A buffer given at launch. `strides` in elements; empty: as the recipe declares.
struct BufferArgument {
  uint64_t address = 0;
  std::vector<int64_t> shape{};  // empty: trusted to match the recipe
  std::vector<int64_t> strides{};
};

// One launch's inputs, by argument name. Scratch addresses are given by name too.
struct LaunchArguments {
  SizeBindings sizes;  // dynamic sizes; device facts as "device.sm_count"
  std::map<std::string, BufferArgument> buffers;
  std::map<std::string, double> scalars;
  std::map<std::string, uint64_t> scratch;
};

// One kernel parameter's bytes as the driver copies them. Tensor maps are 128 bytes and are encoded
// by the launcher, which knows the driver; `tensor_map` then indexes ResolvedLaunch::tensor_maps.
struct PackedArgument {
  std::vector<std::byte> bytes;
  int tensor_map = -1;
};

struct ResolvedTensorMap {
  const RecipeTensorMap* recipe = nullptr;  // owned by the LaunchRecipe
  uint64_t address = 0;
  std::vector<uint64_t> dims;
  std::vector<uint64_t> strides_bytes;
  std::vector<uint32_t> box;
  std::vector<uint32_t> element_strides;
};

struct ResolvedStep {
  std::string symbol;  // empty: memset
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  std::array<uint32_t, 3> cluster{1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  std::vector<PackedArgument> arguments;
  bool programmatic_dependent_launch = false;

  uint64_t memset_address = 0;
  uint64_t memset_bytes = 0;
  int memset_value = 0;
};

struct ResolvedLaunch {
  std::vector<ResolvedStep>
      steps;  // steps whose grid is empty or whose `when` is false are left out
  std::vector<ResolvedTensorMap> tensor_maps;
};

// OK if every guard holds: the recipe's guards, alignment of every given buffer, strides (where an
// extent above 1 makes them matter), and aliasing: buffers one of which is written must not
// overlap, unless one names the other in may_alias and both begin at the same address.
// FAILED_PRECONDITION names the first guard that does not hold.
absl::Status CheckGuards(const LaunchRecipe& recipe, const LaunchArguments& arguments);

// Evaluates everything. INVALID_ARGUMENT names a missing or ill-shaped argument, OUT_OF_RANGE a
// grid, block, cluster or shared-memory size that no CUDA device takes (grid.x 2^31-1, y and z
// 65535). Does not check guards. Scratch that is zeroed at every launch gets a memset step, before
// all others; scratch zeroed once is its owner's to zero. Of the given arguments, those that the
// steps do not use are ignored.
absl::StatusOr<ResolvedLaunch> ResolveLaunch(const LaunchRecipe& recipe,
                                             const LaunchArguments& arguments);

// Bytes a buffer spans for these sizes: distance from its first to its last element, plus one
// element; 0 when any extent is 0. INVALID_ARGUMENT for a negative extent or stride, OUT_OF_RANGE
// beyond 2^63-1.
absl::StatusOr<int64_t> BufferSpanBytes(const RecipeBuffer& buffer, const SizeBindings& sizes);

// Bytes a scratch argument needs for these sizes; INVALID_ARGUMENT when negative.
absl::StatusOr<int64_t> ScratchBytes(const RecipeScratch& scratch, const SizeBindings& sizes);

}  // namespace hone
