// The launcher against a driver table that records calls; tests/gpu proves the same on a device.
#include "runtime/launch/cuda_launcher.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/launch/plan_launcher.h"
#include "tests/launch/recipes.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using enum absl::StatusCode;

struct Recorder {
  std::vector<std::string> calls;
  int loaded = 0;
  CUresult load_result = CUDA_SUCCESS;
  CUresult launch_result = CUDA_SUCCESS;
  std::vector<uint64_t> parameters;  // of the last launch, 8 bytes each
};
Recorder* recorder = nullptr;  // driver functions have no context of their own

int function_storage = 0;

CudaDriver RecordingDriver() {
  CudaDriver driver;
  driver.ModuleLoadDataEx = [](CUmodule* module, const void* image, unsigned, CUjit_option*,
                               void** values) {
    if (recorder->load_result != CUDA_SUCCESS) {
      std::strcpy(static_cast<char*>(values[0]), "ptxas: unsupported version\n");
      return recorder->load_result;
    }
    recorder->calls.push_back(absl::StrCat("load ", static_cast<const char*>(image)));
    ++recorder->loaded;
    *module = reinterpret_cast<CUmodule>(&function_storage);
    return CUDA_SUCCESS;
  };
  driver.ModuleUnload = [](CUmodule) {
    --recorder->loaded;
    return CUDA_SUCCESS;
  };
  driver.ModuleGetFunction = [](CUfunction* function, CUmodule, const char* name) {
    if (std::string(name) == "absent") return CUDA_ERROR_NOT_FOUND;
    recorder->calls.push_back(absl::StrCat("function ", name));
    *function = reinterpret_cast<CUfunction>(&function_storage);
    return CUDA_SUCCESS;
  };
  driver.FuncLoad = [](CUfunction) {
    recorder->calls.push_back("eager");
    return CUDA_SUCCESS;
  };
  driver.FuncSetAttribute = [](CUfunction, CUfunction_attribute attribute, int value) {
    recorder->calls.push_back(absl::StrCat(
        attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? "shared " : "attribute ",
        value));
    return CUDA_SUCCESS;
  };
  driver.MemsetD8Async = [](CUdeviceptr address, unsigned char value, size_t bytes, CUstream) {
    recorder->calls.push_back(absl::StrCat("memset ", address, " ", value, " ", bytes));
    return CUDA_SUCCESS;
  };
  driver.LaunchKernelEx = [](const CUlaunchConfig* config, CUfunction, void** parameters, void**) {
    std::string call = absl::StrCat("launch ", config->gridDimX, " ", config->blockDimX, " ",
                                    config->sharedMemBytes);
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const CUlaunchAttribute& attribute = config->attrs[i];
      if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        absl::StrAppend(&call, " cluster ", attribute.value.clusterDim.x);
      } else {
        absl::StrAppend(&call, " dependent");
      }
    }
    recorder->calls.push_back(call);
    recorder->parameters.clear();
    for (int i = 0; i < 3; ++i) {
      uint64_t value = 0;
      std::memcpy(&value, parameters[i], sizeof(value));
      recorder->parameters.push_back(value);
    }
    return recorder->launch_result;
  };
  return driver;
}

class CudaLauncherTest : public testing::Test {
 protected:
  CudaLauncherTest() { recorder = &recorder_; }
  ~CudaLauncherTest() override { recorder = nullptr; }

  absl::Status Launch(const LaunchRecipe& recipe, int64_t n, CudaModule& module) {
    absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(recipe, CopyArguments(n));
    if (!launch.ok()) return launch.status();
    return LaunchOnStream(module.driver(), module, *launch, nullptr);
  }

  Recorder recorder_;
  const CudaDriver driver_ = RecordingDriver();
};

TEST_F(CudaLauncherTest, LoadsOnceAndFindsEachFunctionOnce) {
  {
    absl::StatusOr<CudaModule> module = CudaModule::Load(driver_, "image");
    ASSERT_THAT(module, IsOk());
    EXPECT_THAT(Launch(CopyRecipe(), 4096, *module), IsOk());
    EXPECT_THAT(Launch(CopyRecipe(), 1, *module), IsOk());
    EXPECT_THAT(recorder_.calls, ElementsAre("load image", "function copy", "eager",
                                             "launch 4 256 0", "launch 1 256 0"));
    EXPECT_THAT(recorder_.parameters, ElementsAre(0x100000u, 0x200000u, 1u));
    CudaModule moved = *std::move(module);
    EXPECT_EQ(recorder_.loaded, 1);
  }
  EXPECT_EQ(recorder_.loaded, 0);
}

TEST_F(CudaLauncherTest, SharedMemoryBeyondTheDefaultIsAllowedOnce) {
  absl::StatusOr<CudaModule> module = CudaModule::Load(driver_, "image");
  ASSERT_THAT(module, IsOk());
  LaunchRecipe recipe = CopyRecipe();
  recipe.steps[0].launch.dynamic_shared_bytes = E("n");
  EXPECT_THAT(Launch(recipe, 48 * 1024, *module), IsOk());
  EXPECT_THAT(Launch(recipe, 100000, *module), IsOk());
  EXPECT_THAT(Launch(recipe, 90000, *module), IsOk());
  EXPECT_THAT(recorder_.calls,
              ElementsAre("load image", "function copy", "eager", "launch 48 256 49152",
                          "shared 100000", "launch 98 256 100000", "launch 88 256 90000"));
}

TEST_F(CudaLauncherTest, ClustersDependentLaunchesAndMemsets) {
  absl::StatusOr<CudaModule> module = CudaModule::Load(driver_, "image");
  ASSERT_THAT(module, IsOk());
  LaunchRecipe recipe = CopyRecipe();
  recipe.steps[0].launch.grid[0] = E("32");
  recipe.steps[0].launch.cluster[0] = E("16");
  recipe.steps[0].programmatic_dependent_launch = true;
  recipe.steps.push_back(recipe.steps[0]);
  RecipeStep memset;
  memset.memset_argument = 0;
  memset.memset_value = 7;
  recipe.steps.push_back(memset);
  EXPECT_THAT(Launch(recipe, 4, *module), IsOk());
  EXPECT_THAT(recorder_.calls,
              ElementsAre("load image", "function copy", "eager", "attribute 1",
                          "launch 32 256 0 cluster 16", "launch 32 256 0 cluster 16 dependent",
                          "memset 1048576 7 16"));
}

TEST_F(CudaLauncherTest, ErrorsNameTheStep) {
  absl::StatusOr<CudaModule> module = CudaModule::Load(driver_, "image");
  ASSERT_THAT(module, IsOk());
  recorder_.launch_result = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  EXPECT_THAT(Launch(CopyRecipe(), 4, *module),
              StatusIs(kFailedPrecondition, HasSubstr("step 0 (copy): cuLaunchKernelEx: ")));
  recorder_.launch_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_THAT(Launch(CopyRecipe(), 4, *module), StatusIs(kAborted, HasSubstr("step 0 (copy)")));
  LaunchRecipe recipe = CopyRecipe();
  recipe.steps[0].symbol = "absent";
  EXPECT_THAT(Launch(recipe, 4, *module), StatusIs(kNotFound, HasSubstr("no kernel 'absent'")));
}

TEST_F(CudaLauncherTest, AnImageTheDriverRefusesCarriesItsLog) {
  recorder_.load_result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  EXPECT_THAT(CudaModule::Load(driver_, "image"),
              StatusIs(kFailedPrecondition, HasSubstr("ptxas: unsupported version")));
  EXPECT_EQ(recorder_.loaded, 0);
}

TEST_F(CudaLauncherTest, TensorMapsNeedADriverThatHasThem) {
  LaunchRecipe recipe = CopyRecipe();
  RecipeTensorMap map;
  map.buffer = "src";
  map.dims = {E("n")};
  map.box = {E("32")};
  recipe.arguments.push_back({"map", map});
  recipe.steps[0].arguments = {3};
  absl::StatusOr<CudaModule> module = CudaModule::Load(driver_, "image");
  ASSERT_THAT(module, IsOk());
  EXPECT_THAT(Launch(recipe, 64, *module),
              StatusIs(kFailedPrecondition, HasSubstr("cuTensorMapEncodeTiled")));
}

// As Launch, by a plan.
absl::Status LaunchPlannedCopy(const CudaDriver& driver, const LaunchRecipe& recipe, int64_t n,
                               CudaModule& module) {
  const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(recipe, {});
  if (!plan.ok()) return plan.status();
  const absl::StatusOr<PlanFunctions> functions = PlanFunctions::Find(module, recipe);
  if (!functions.ok()) return functions.status();
  const PlanBuffer buffers[] = {{.address = 0x100000}, {.address = 0x200000}};
  PlannedLaunch launch;
  if (!plan->Resolve({.sizes = &n, .buffers = buffers}, launch)) {
    return absl::InternalError("not resolved");
  }
  return LaunchOnStream(driver, *plan, *functions, launch, nullptr);
}

TEST_F(CudaLauncherTest, APlannedLaunchMakesTheCallsOfALaunchByName) {
  CudaDriver driver = RecordingDriver();
  driver.TensorMapEncodeTiled = [](CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank,
                                   void* address, const cuuint64_t* dims, const cuuint64_t*,
                                   const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave,
                                   CUtensorMapSwizzle, CUtensorMapL2promotion,
                                   CUtensorMapFloatOOBfill) {
    recorder->calls.push_back(absl::StrCat("map ", rank, " ", reinterpret_cast<uint64_t>(address),
                                           " ", dims[0], " ", box[0]));
    const uint64_t mark = 77;
    std::memcpy(map, &mark, sizeof(mark));
    return CUDA_SUCCESS;
  };
  LaunchRecipe recipe = CopyRecipe();
  RecipeTensorMap map;
  map.buffer = "src";
  map.dims = {E("n")};
  map.box = {E("32")};
  recipe.arguments.push_back({"map", map});
  recipe.steps[0].launch.grid[0] = E("32");
  recipe.steps[0].launch.cluster[0] = E("16");
  recipe.steps[0].launch.dynamic_shared_bytes = E("n * 16");
  recipe.steps[0].programmatic_dependent_launch = true;
  recipe.steps.push_back(recipe.steps[0]);
  recipe.steps[1].arguments = {1, 3, 2};
  RecipeStep memset;
  memset.memset_argument = 0;
  memset.memset_value = 7;
  recipe.steps.push_back(memset);

  std::vector<std::string> calls[2];
  for (const bool planned : {false, true}) {
    absl::StatusOr<CudaModule> module = CudaModule::Load(driver, "image");
    ASSERT_THAT(module, IsOk());
    recorder_.calls.clear();
    for (const int64_t n : {4096, 8192, 4}) {
      EXPECT_THAT(
          planned ? LaunchPlannedCopy(driver, recipe, n, *module) : Launch(recipe, n, *module),
          IsOk());
      EXPECT_THAT(recorder_.parameters, ElementsAre(0x200000u, 77u, static_cast<uint64_t>(n)));
    }
    // By name a function is found at its first launch, after the maps were encoded.
    std::stable_partition(recorder_.calls.begin(), recorder_.calls.end(),
                          [](const std::string& call) { return call.find("map") != 0; });
    calls[planned ? 1 : 0] = recorder_.calls;
  }
  EXPECT_EQ(calls[0], calls[1]);
  EXPECT_GT(calls[0].size(), 10u);
}

TEST_F(CudaLauncherTest, ErrorsOfAPlannedLaunchNameTheStep) {
  absl::StatusOr<CudaModule> module = CudaModule::Load(driver_, "image");
  ASSERT_THAT(module, IsOk());
  recorder_.launch_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_THAT(LaunchPlannedCopy(driver_, CopyRecipe(), 4, *module),
              StatusIs(kAborted, HasSubstr("step 0 (copy): cuLaunchKernelEx: ")));
  LaunchRecipe recipe = CopyRecipe();
  recipe.steps[0].symbol = "absent";
  EXPECT_THAT(LaunchPlannedCopy(driver_, recipe, 4, *module),
              StatusIs(kNotFound, HasSubstr("no kernel 'absent'")));
}

// The driver's limit of a function only ever rises, or a launch of another thread would fail.
TEST_F(CudaLauncherTest, ThreadsThatNeedMoreSharedMemoryRaiseTheLimitTogether) {
  absl::StatusOr<CudaModule> module = CudaModule::Load(driver_, "image");
  ASSERT_THAT(module, IsOk());
  absl::StatusOr<CudaFunction*> function = module->Find("copy");
  ASSERT_THAT(function, IsOk());
  recorder_.calls.clear();
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint32_t i = 0; i < 100; ++i) {
        EXPECT_THAT((*function)->Allow(50000 + (i * 7919 + thread * 104729) % 100000, 1), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_FALSE(recorder_.calls.empty());
  int last = 0;
  for (const std::string& call : recorder_.calls) {
    const int bytes = std::stoi(call.substr(std::strlen("shared ")));
    EXPECT_GT(bytes, last);
    last = bytes;
  }
}

}  // namespace
}  // namespace hone
