#include "client/cpp/hone/kernel.h"

#include "client/cpp/kernel_state.h"
#include "runtime/base/sha256.h"
#include "runtime/launch/cuda_driver.h"
#include "tests/client/fake_service.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
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

TEST(KernelTest, WithoutADriverLaunchingSaysSo) {
  if (CudaDriver::Get().ok()) GTEST_SKIP() << "this machine has a CUDA driver";
  EXPECT_THAT(TwoVariants().Launch(Arguments(4), nullptr),
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

}  // namespace
}  // namespace hone
