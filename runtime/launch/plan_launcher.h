// Launches of plans on a CUDA stream.
#pragma once

#include <cuda.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/launch/cuda_driver.h"
#include "runtime/launch/cuda_launcher.h"
#include "runtime/launch/launch_plan.h"

namespace hone {

// The kernels of a recipe's steps in one module, found and loaded, so that no launch has to. Refers
// to the module's functions and lives no longer than it. Immutable, thread-safe.
class PlanFunctions {
 public:
  // NOT_FOUND names a symbol that the module does not have.
  static absl::StatusOr<PlanFunctions> Find(CudaModule& module, const LaunchRecipe& recipe);

  // nullptr for a memset.
  CudaFunction* of(int recipe_step) const { return functions_[static_cast<size_t>(recipe_step)]; }

 private:
  std::vector<CudaFunction*> functions_;  // by the recipe's steps
};

// LaunchOnStream for a planned launch, with the same errors: enqueues all steps and makes neither
// an allocation, nor a synchronising call, nor takes a lock, once the kernels were allowed the
// shared memory that they need. `launch` is what plan.Resolve filled; `functions` are of the plan's
// recipe and of a module of the current context.
absl::Status LaunchOnStream(const CudaDriver& driver, const LaunchPlan& plan,
                            const PlanFunctions& functions, const PlannedLaunch& launch,
                            CUstream stream);

}  // namespace hone
