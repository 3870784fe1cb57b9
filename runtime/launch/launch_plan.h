// A recipe prepared for launching it millions of times: names are positions, expressions are read
// from slots, and what does not depend on a launch is evaluated once.
//
// A plan answers yes or no. Yes means what CheckGuards and ResolveLaunch mean, number for number,
// and costs no allocation and no lock. On no the caller asks CheckGuards or ResolveLaunch with
// ArgumentsOf(inputs), which have the words for it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/launch/launch_limits.h"
#include "runtime/launch/launch_recipe.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {

// What a plan holds at most; recipes beyond are for ResolveLaunch alone. The largest template of
// kernels/ has 6 arguments and 2 steps.
inline constexpr size_t kPlanArgumentsMax = 64;  // also of one step
inline constexpr size_t kPlanStepsMax = 8;       // kernels and memsets, with those of scratch
inline constexpr size_t kPlanTensorMapsMax = 8;
inline constexpr size_t kPlanSlotsMax = 64;  // dynamic sizes and integral per-launch scalars

// A buffer of a launch. Null: not given. `shape` (of `rank`) and `strides` (of `rank`, in elements)
// may each be nullptr, or rank below 1: trusted to match the recipe.
struct PlanBuffer {
  uint64_t address = 0;
  const int64_t* shape = nullptr;
  const int64_t* strides = nullptr;
  int rank = -1;
};

// Names of a launch's inputs by position, in the recipe's order.
struct LaunchNames {
  std::vector<std::string> sizes;
  std::vector<std::string> buffers;
  std::vector<std::string> scalars;  // those given per launch
  std::vector<std::string> scratch;

  friend bool operator==(const LaunchNames&, const LaunchNames&) = default;
};
LaunchNames NamesOf(const LaunchRecipe& recipe);

// One launch's inputs. Each array is as long as LaunchNames says and may be nullptr only when that
// is 0; owned by the caller and read during the call only.
struct PlanInputs {
  const int64_t* sizes = nullptr;
  const PlanBuffer* buffers = nullptr;
  const double* scalars = nullptr;
  const uint64_t* scratch = nullptr;  // addresses, 0: not given
};

// The same launch by names, without device facts.
LaunchArguments ArgumentsOf(const LaunchNames& names, const PlanInputs& inputs);

// One step as a driver takes it.
struct PlannedStep {
  int recipe_step;  // index into LaunchRecipe::steps; -1: zeroes a scratch argument
  bool is_kernel;   // else a memset
  bool programmatic_dependent_launch;
  std::array<uint32_t, 3> grid;  // x, y, z
  std::array<uint32_t, 3> block;
  std::array<uint32_t, 3> cluster;
  uint32_t dynamic_shared_bytes;

  uint64_t memset_address;
  uint64_t memset_bytes;
  int memset_value;
};

struct PlannedTensorMap {
  const RecipeTensorMap* recipe;  // owned by the LaunchRecipe
  uint64_t address;
  uint32_t rank;
  std::array<uint64_t, kTensorMapRankMax> dims;
  std::array<uint64_t, kTensorMapRankMax> strides_bytes;  // rank - 1 of them
  std::array<uint32_t, kTensorMapRankMax> box;
  std::array<uint32_t, kTensorMapRankMax> element_strides;
};

// One launch, resolved. 2.5 KiB for a thread's stack, deliberately not initialised: only what the
// counts and the steps' parameters name has values.
struct PlannedLaunch {
  PlannedLaunch() {}  // NOLINT: a defaulted one would clear the arrays where it is written {}

  size_t step_count = 0;
  uint32_t tensor_maps_used = 0;  // bit i: tensor_maps[i] is used by this launch
  std::array<PlannedStep, kPlanStepsMax> steps;
  // By argument of the recipe: its bytes, low bytes first as on every host that CUDA runs on.
  std::array<uint64_t, kPlanArgumentsMax> words;
  std::array<PlannedTensorMap, kPlanTensorMapsMax> tensor_maps;
};

// A kernel's parameter: where its bytes are in a PlannedLaunch.
struct PlanParameter {
  bool is_tensor_map = false;
  uint8_t index = 0;       // into PlannedLaunch::words or tensor_maps
  uint8_t size_bytes = 0;  // of a word
};

// Immutable, thread-safe. Refers to the recipe it was made of, which must outlive it unmoved.
class LaunchPlan {
 public:
  // `device_facts` ("device.sm_count", ...) are folded in. UNIMPLEMENTED, with the reason, when the
  // recipe is beyond a plan's bounds, mentions names that have no value inside larger expressions,
  // or an expression of it fails for every launch: such recipes launch by name only.
  static absl::StatusOr<LaunchPlan> Create(const LaunchRecipe& recipe,
                                           const SizeBindings& device_facts);

  LaunchPlan(LaunchPlan&&) noexcept;
  LaunchPlan& operator=(LaunchPlan&&) noexcept;
  ~LaunchPlan();

  const LaunchRecipe& recipe() const;
  const LaunchNames& names() const;

  // Whether CheckGuards is OK.
  bool Accepts(const PlanInputs& inputs) const;
  // Whether ResolveLaunch is OK; fills `launch`, which holds nothing of use on no.
  bool Resolve(const PlanInputs& inputs, PlannedLaunch& launch) const;

  // Of a kernel step of the recipe, in the order of its arguments.
  const std::vector<PlanParameter>& Parameters(int recipe_step) const;

  struct Data;

 private:
  explicit LaunchPlan(std::unique_ptr<const Data> data);
  std::unique_ptr<const Data> data_;
};

}  // namespace hone
