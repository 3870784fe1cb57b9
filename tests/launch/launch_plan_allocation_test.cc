// A launch from a plan allocates nothing, whatever the answer.
#include <string>

#include "runtime/launch/launch_plan.h"
#include "runtime/launch/plan_launcher.h"
#include "tests/launch/recipes.h"
#include "tests/testing/allocation_counter.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

// Everything that a recipe may have: guards, tensor maps, scratch, memsets, scalars, two kernels.
LaunchRecipe RichRecipe() {
  LaunchRecipe recipe = CopyRecipe();
  recipe.guards = {E("n % 4 == 0"), E("s < 100 || min(n, s, 7) > 2")};
  recipe.arguments.push_back({"s", RecipeScalar{.type = DataType::kI32, .value = std::nullopt}});
  recipe.arguments.push_back({"eps", RecipeScalar{.type = DataType::kBF16, .value = std::nullopt}});
  recipe.arguments.push_back(
      {"tmp", RecipeScratch{.bytes = E("n * 8"), .zeroed = ScratchZeroed::kEveryLaunch}});
  RecipeTensorMap map;
  map.buffer = "src";
  map.dims = {E("n")};
  map.box = {E("32")};
  recipe.arguments.push_back({"map", map});
  recipe.steps[0].arguments = {0, 1, 2, 3, 4, 5, 6};
  recipe.steps[0].launch.cluster[0] = E("2");
  recipe.steps[0].launch.dynamic_shared_bytes = E("65536");
  recipe.steps.push_back(recipe.steps[0]);
  recipe.steps[1].programmatic_dependent_launch = true;
  RecipeStep memset;
  memset.memset_argument = 0;
  recipe.steps.push_back(memset);
  return recipe;
}

struct Launched {
  int64_t n;
  uint64_t src;
  double s;
};

TEST(LaunchPlanAllocationTest, NothingIsAllocatedOnYesAndOnNo) {
  const LaunchRecipe recipe = RichRecipe();
  const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(recipe, {});
  ASSERT_THAT(plan, IsOk());
  const int64_t shape[] = {2048}, strides[] = {1};
  int yes = 0, no = 0;
  for (const Launched& launched :
       {Launched{2048, 0x200000, 7}, Launched{2047, 0x200000, 7}, Launched{2048, 0x200004, 7},
        Launched{2048, 0x100000, 7}, Launched{int64_t{1} << 62, 0x200000, 7},
        Launched{2048, 0x200000, 0.5}, Launched{2048, 0, 7}}) {
    const PlanBuffer buffers[] = {
        {.address = 0x100000},
        {.address = launched.src, .shape = shape, .strides = strides, .rank = 1}};
    const double scalars[] = {launched.s, 1e-5};
    const uint64_t scratch[] = {0x300000};
    const PlanInputs inputs{
        .sizes = &launched.n, .buffers = buffers, .scalars = scalars, .scratch = scratch};
    const int64_t before = AllocationsOfThisThread();
    PlannedLaunch launch;
    const bool accepted = plan->Accepts(inputs);
    const bool resolved = plan->Resolve(inputs, launch);
    EXPECT_EQ(AllocationsOfThisThread() - before, 0);
    ++(accepted && resolved ? yes : no);
  }
  EXPECT_EQ(yes, 1);
  EXPECT_EQ(no, 6);
}

TEST(LaunchPlanAllocationTest, NothingIsAllocatedOnTheWayToTheDriver) {
  CudaDriver driver;
  static int launches = 0;
  driver.ModuleLoadDataEx = [](CUmodule* module, const void*, unsigned, CUjit_option*, void**) {
    *module = reinterpret_cast<CUmodule>(&launches);
    return CUDA_SUCCESS;
  };
  driver.ModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
  driver.ModuleGetFunction = [](CUfunction* function, CUmodule, const char*) {
    *function = reinterpret_cast<CUfunction>(&launches);
    return CUDA_SUCCESS;
  };
  driver.FuncSetAttribute = [](CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; };
  driver.MemsetD8Async = [](CUdeviceptr, unsigned char, size_t, CUstream) { return CUDA_SUCCESS; };
  driver.TensorMapEncodeTiled = [](CUtensorMap*, auto...) { return CUDA_SUCCESS; };
  driver.LaunchKernelEx = [](const CUlaunchConfig*, CUfunction, void**, void**) {
    ++launches;
    return CUDA_SUCCESS;
  };
  absl::StatusOr<CudaModule> module = CudaModule::Load(driver, "image");
  ASSERT_THAT(module, IsOk());
  const LaunchRecipe recipe = RichRecipe();
  const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(recipe, {});
  const absl::StatusOr<PlanFunctions> functions = PlanFunctions::Find(*module, recipe);
  ASSERT_THAT(plan, IsOk());
  ASSERT_THAT(functions, IsOk());
  const int64_t n = 2048;
  const PlanBuffer buffers[] = {{.address = 0x100000}, {.address = 0x200000}};
  const double scalars[] = {7, 1e-5};
  const uint64_t scratch[] = {0x300000};
  const PlanInputs inputs{.sizes = &n, .buffers = buffers, .scalars = scalars, .scratch = scratch};
  const int64_t before = AllocationsOfThisThread();
  for (int i = 0; i < 3; ++i) {
    PlannedLaunch launch;
    ASSERT_TRUE(plan->Accepts(inputs) && plan->Resolve(inputs, launch));
    const absl::Status status = LaunchOnStream(driver, *plan, *functions, launch, nullptr);
    ASSERT_TRUE(status.ok());
  }
  EXPECT_EQ(AllocationsOfThisThread() - before, 0);
  EXPECT_EQ(launches, 6);
}

TEST(LaunchPlanAllocationTest, TheCounterCounts) {
  const int64_t before = AllocationsOfThisThread();
  const std::string text(1000, 'x');
  EXPECT_EQ(AllocationsOfThisThread() - before, 1) << text.size();
}

}  // namespace
}  // namespace hone
