#include "runtime/launch/plan_launcher.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/cuda_launch_kernel.h"

namespace hone {
namespace {

using PlannedMaps = std::array<CUtensorMap, kPlanTensorMapsMax>;

absl::Status EnqueuePlanned(const CudaDriver& driver, const LaunchPlan& plan,
                            const PlanFunctions& functions, const PlannedLaunch& launch,
                            const PlannedStep& step, PlannedMaps& maps, CUstream stream) {
  if (!step.is_kernel) {
    HONE_CUDA_RETURN_IF_ERROR(
        driver, MemsetD8Async(step.memset_address, static_cast<unsigned char>(step.memset_value),
                              step.memset_bytes, stream));
    return absl::OkStatus();
  }
  CudaFunction& function = *functions.of(step.recipe_step);
  HONE_RETURN_IF_ERROR(function.Allow(step.dynamic_shared_bytes, BlocksPerCluster(step.cluster)));
  std::array<void*, kPlanArgumentsMax> parameters;
  size_t count = 0;
  for (const PlanParameter& parameter : plan.Parameters(step.recipe_step)) {
    // The driver only reads parameters; its interface is older than its const.
    parameters[count++] = parameter.is_tensor_map
                              ? static_cast<void*>(&maps[parameter.index])
                              : const_cast<uint64_t*>(&launch.words[parameter.index]);
  }
  return LaunchKernel(driver, function.get(), step, parameters.data(), stream);
}

absl::Status InStep(const absl::Status& status, const LaunchPlan& plan, const PlannedLaunch& launch,
                    size_t index) {
  const PlannedStep& step = launch.steps[index];
  const std::string what =
      step.is_kernel ? plan.recipe().steps[static_cast<size_t>(step.recipe_step)].symbol : "memset";
  return absl::Status(status.code(),
                      absl::StrCat("step ", index, " (", what, "): ", status.message()));
}

}  // namespace

absl::StatusOr<PlanFunctions> PlanFunctions::Find(CudaModule& module, const LaunchRecipe& recipe) {
  PlanFunctions found;
  for (const RecipeStep& step : recipe.steps) {
    CudaFunction* function = nullptr;
    if (!step.symbol.empty()) {
      HONE_ASSIGN_OR_RETURN(function, module.Find(step.symbol));
    }
    found.functions_.push_back(function);
  }
  return found;
}

absl::Status LaunchOnStream(const CudaDriver& driver, const LaunchPlan& plan,
                            const PlanFunctions& functions, const PlannedLaunch& launch,
                            CUstream stream) {
  PlannedMaps maps;
  for (uint32_t left = launch.tensor_maps_used; left != 0; left &= left - 1) {
    const auto index = static_cast<size_t>(__builtin_ctz(left));
    HONE_RETURN_IF_ERROR(EncodeTensorMap(driver, launch.tensor_maps[index], maps[index]));
  }
  for (size_t i = 0; i < launch.step_count; ++i) {
    const absl::Status status =
        EnqueuePlanned(driver, plan, functions, launch, launch.steps[i], maps, stream);
    if (!status.ok()) return InStep(status, plan, launch, i);
  }
  return absl::OkStatus();
}

}  // namespace hone
