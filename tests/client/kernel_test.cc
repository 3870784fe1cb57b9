#include "client/cpp/hone/kernel.h"

#include <set>
#include <thread>
#include <vector>

#include "client/cpp/kernel_contexts.h"
#include "client/cpp/kernel_state.h"
#include "runtime/base/sha256.h"
#include "runtime/launch/cuda_driver.h"
#include "runtime/launch/recipe_proto.h"
#include "tests/client/fake_service.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum absl::StatusCode;

// Variants for 16 aligned bytes and n % 4 == 0, and for anything.
Kernel TwoVariants(const std::string& format = "CUBIN", bool cpu_enabled = false) {
  v1::GetKernelResponse response;
  response.mutable_kernel()->set_architecture(format == "CUBIN" ? "sm_90a" : "cpu");
  *response.mutable_kernel()->add_variants() = CopyVariant("fast", 16, "n % 4 == 0", true);
  *response.mutable_kernel()->add_variants() = CopyVariant("plain", 4, "", true);
  for (v1::KernelVariant& variant : *response.mutable_kernel()->mutable_variants()) {
    variant.mutable_artifact()->set_format(format);
  }
  absl::StatusOr<Kernel> kernel = MakeKernel(
      response, {{Sha256Hex("fast"), "fast"}, {Sha256Hex("plain"), "plain"}}, cpu_enabled);
  EXPECT_THAT(kernel, IsOk());
  return *kernel;
}

LaunchArguments Arguments(int64_t n) {
  LaunchArguments arguments;
  arguments.sizes = {{"n", n}};
  arguments.buffers = {{"dst", {.address = 0x100000}}, {"src", {.address = 0x200000}}};
  return arguments;
}

TEST(KernelTest, TakesTheFirstVariantWhoseGuardsHold) {
  const Kernel kernel = TwoVariants();
  EXPECT_THAT(kernel.ChooseVariant(Arguments(4096)), IsOkAndHolds(0));
  EXPECT_THAT(kernel.ChooseVariant(Arguments(4097)), IsOkAndHolds(1));
  LaunchArguments shifted = Arguments(4096);
  shifted.buffers["src"].address += 4;
  EXPECT_THAT(kernel.ChooseVariant(shifted), IsOkAndHolds(1));
}

TEST(KernelTest, SaysWhyNoVariantAccepts) {
  LaunchArguments shifted = Arguments(4097);
  shifted.buffers["src"].address += 1;
  EXPECT_THAT(
      TwoVariants().ChooseVariant(shifted),
      StatusIs(kFailedPrecondition, AllOf(HasSubstr("VEC=4: guard 'n % 4 == 0' does not hold"),
                                          HasSubstr("VEC=1: buffer 'src' at 0x200001"))));
}

TEST(KernelTest, NamesItDoesNotKnowAreRefused) {
  const Kernel kernel = TwoVariants();
  LaunchArguments arguments = Arguments(4);
  arguments.sizes["m"] = 4;
  EXPECT_THAT(kernel.ChooseVariant(arguments),
              StatusIs(kInvalidArgument, HasSubstr("no dynamic size 'm'; it has n")));
  arguments = Arguments(4);
  arguments.buffers["source"] = {.address = 16};
  EXPECT_THAT(kernel.ChooseVariant(arguments),
              StatusIs(kInvalidArgument, HasSubstr("no buffer 'source'; it has dst, src")));
  arguments = Arguments(4);
  arguments.scratch["tmp"] = 16;
  EXPECT_THAT(kernel.ChooseVariant(arguments),
              StatusIs(kInvalidArgument, HasSubstr("no scratch 'tmp'; it has none")));
  EXPECT_THAT(kernel.ChooseVariant(LaunchArguments{}),
              StatusIs(kInvalidArgument, HasSubstr("size 'n' is missing")));
}

TEST(KernelTest, ByPositionItChoosesAndRefusesAsByName) {
  const Kernel kernel = TwoVariants();
  EXPECT_THAT(kernel.names().sizes, ElementsAre("n"));
  EXPECT_THAT(kernel.names().buffers, ElementsAre("dst", "src"));
  EXPECT_THAT(kernel.names().scalars, IsEmpty());
  const auto choose = [&](int64_t n, uint64_t src) {
    const PlanBuffer buffers[] = {{.address = 0x100000}, {.address = src}};
    return kernel.ChooseVariant(PlanInputs{.sizes = &n, .buffers = buffers});
  };
  EXPECT_THAT(choose(4096, 0x200000), IsOkAndHolds(0));
  EXPECT_THAT(choose(4097, 0x200000), IsOkAndHolds(1));
  EXPECT_THAT(choose(4096, 0x200004), IsOkAndHolds(1));
  EXPECT_THAT(choose(4097, 0x200001),
              StatusIs(kFailedPrecondition, AllOf(HasSubstr("VEC=4: guard 'n % 4 == 0' does not"),
                                                  HasSubstr("VEC=1: buffer 'src' at 0x200001"))));
  EXPECT_THAT(kernel.ScratchBytes(0, PlanInputs{}),
              StatusIs(kNotFound, HasSubstr("scratch 0: the kernel has 0")));
}

TEST(KernelTest, ListsThatPositionsCannotSayAreLaunchedByName) {
  LaunchArguments arguments = Arguments(4096);
  arguments.buffers["src"].shape = {64, 64};
  arguments.buffers["src"].strides = {1};
  EXPECT_THAT(TwoVariants().ChooseVariant(arguments), IsOkAndHolds(0));
  arguments.buffers["src"].strides = {64, 1, 1};
  EXPECT_THAT(TwoVariants().ChooseVariant(arguments),
              StatusIs(kFailedPrecondition, HasSubstr("'src' has 3 strides")));
}

TEST(KernelContextsTest, ManyThreadsShareOneEntryOfAContext) {
  const Kernel kernel = TwoVariants();
  const VariantPlans plans = PlansOf(kernel.variants(), kernel.names(), {});
  ASSERT_TRUE(plans[0] && plans[1]);
  KernelContexts contexts(&kernel.variants(), &kernel.names(), &plans);
  const CudaDriver driver;  // not called: no expression mentions the device
  EXPECT_EQ(contexts.Find(1), nullptr);
  constexpr size_t kContexts = 5;
  std::vector<std::vector<const KernelInContext*>> seen(8);
  std::vector<std::thread> threads;
  for (auto& mine : seen) {
    threads.emplace_back([&] {
      for (uint64_t context = 0; context < kContexts; ++context) {
        mine.push_back(contexts.FindOrAdd(driver, context).value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : seen) EXPECT_EQ(mine, seen[0]);
  EXPECT_EQ(std::set<const KernelInContext*>(seen[0].begin(), seen[0].end()).size(), kContexts);
  EXPECT_EQ(seen[0][3]->plan(1), &*plans[1]);
  EXPECT_EQ(seen[0][3]->functions(0), nullptr);
  EXPECT_EQ(contexts.Find(3), seen[0][3]);
}

TEST(KernelTest, WithoutADriverLaunchingSaysSo) {
  if (CudaDriver::Get().ok()) GTEST_SKIP() << "this machine has a CUDA driver";
  EXPECT_THAT(TwoVariants().Launch(Arguments(4), nullptr),
              StatusIs(kFailedPrecondition, HasSubstr("libcuda")));
  const int64_t n = 4;
  const PlanBuffer buffers[] = {{.address = 0x100000}, {.address = 0x200000}};
  EXPECT_THAT(TwoVariants().Launch(PlanInputs{.sizes = &n, .buffers = buffers}, nullptr),
              StatusIs(kFailedPrecondition, HasSubstr("libcuda")));
  EXPECT_THAT(TwoVariants().Prepare(), StatusIs(kFailedPrecondition, HasSubstr("libcuda")));
}

TEST(KernelTest, TheCpuDeviceMustBeEnabled) {
  EXPECT_THAT(TwoVariants("HOST_ELF", /*cpu_enabled=*/false).LaunchOnCpu(Arguments(4)),
              StatusIs(kFailedPrecondition, HasSubstr("enable_cpu_device")));
  EXPECT_THAT(TwoVariants("CUBIN", /*cpu_enabled=*/true).LaunchOnCpu(Arguments(4)),
              StatusIs(kFailedPrecondition, HasSubstr("this kernel is for sm_90a")));
}

TEST(KernelTest, BytesThatAreNoModuleAreRefused) {
  EXPECT_FALSE(TwoVariants("HOST_ELF", /*cpu_enabled=*/true).LaunchOnCpu(Arguments(4)).ok());
}

TEST(KernelTest, ScratchIsToldPerLaunch) {
  EXPECT_THAT(TwoVariants().ScratchBytes("tmp", Arguments(4)),
              StatusIs(kNotFound, HasSubstr("no scratch 'tmp'")));
}

Kernel OneVariant(const v1::KernelVariant& variant) {
  v1::GetKernelResponse response;
  *response.mutable_kernel()->add_variants() = variant;
  absl::StatusOr<Kernel> kernel = MakeKernel(response, {{Sha256Hex("one"), "one"}}, false);
  EXPECT_THAT(kernel, IsOk());
  return *kernel;
}

TEST(KernelTest, DeviceFactsMayBeGivenWhereNoDeviceIsCurrent) {
  const Kernel kernel = OneVariant(CopyVariant("one", 4, "n <= 1024 * device.sm_count", true));
  LaunchArguments arguments = Arguments(4096);
  arguments.sizes["device.sm_count"] = 4;
  EXPECT_THAT(kernel.ChooseVariant(arguments), IsOkAndHolds(0));
  arguments.sizes["device.sm_count"] = 3;
  EXPECT_THAT(kernel.ChooseVariant(arguments),
              StatusIs(kFailedPrecondition, HasSubstr("device.sm_count' does not hold")));
  if (CudaDriver::Get().ok()) return;  // whose device's facts would be taken
  EXPECT_THAT(kernel.ChooseVariant(Arguments(4096)),
              StatusIs(kFailedPrecondition, HasSubstr("'device.sm_count' has no value")));
}

TEST(KernelTest, ScratchMayDependOnAScalarOfTheLaunch) {
  v1::KernelVariant variant = CopyVariant("one", 4, "", true);
  LaunchRecipe recipe = FromProto(variant.recipe()).value();
  recipe.arguments.push_back({"s", RecipeScalar{.type = DataType::kI32, .value = std::nullopt}});
  recipe.arguments.push_back({"tmp", RecipeScratch{.bytes = Expression::Parse("n * s").value()}});
  *variant.mutable_recipe() = ToProto(recipe);
  const Kernel kernel = OneVariant(variant);
  LaunchArguments arguments = Arguments(100);
  arguments.scalars["s"] = 8;
  EXPECT_THAT(kernel.ScratchBytes("tmp", arguments), IsOkAndHolds(800));
  const int64_t n = 100;
  const PlanBuffer buffers[] = {{.address = 0x100000}, {.address = 0x200000}};
  const double s = 9;
  const uint64_t tmp = 0;
  EXPECT_THAT(kernel.ScratchBytes(
                  0, PlanInputs{.sizes = &n, .buffers = buffers, .scalars = &s, .scratch = &tmp}),
              IsOkAndHolds(900));
}

}  // namespace
}  // namespace hone
