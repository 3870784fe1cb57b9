// Ceilings on a scripted device, and on the CPU device with the kernels as they are compiled.
#include "runtime/device/ceilings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/host_compiler.h"
#include "runtime/device/support_program.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_device.h"
#include "tests/testing/fake_profiler.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::Contains;
using testing::Not;

constexpr const char* kSymbols[] = {"hone_copy_1",
                                    "hone_copy_4",
                                    "hone_copy_8",
                                    "hone_empty",
                                    "hone_rate_f32",
                                    "hone_rate_mma_sync_tf32",
                                    "hone_rate_mma_sync_f16",
                                    "hone_rate_mma_sync_bf16",
                                    "hone_rate_mma_sync_fp8",
                                    "hone_rate_wgmma_tf32",
                                    "hone_rate_wgmma_f16",
                                    "hone_rate_wgmma_bf16",
                                    "hone_rate_wgmma_fp8"};

// All do nothing.
void GiveKernels(FakeDevice& device) {
  for (const char* symbol : kSymbols) device.SetKernel(symbol, [](const FakeLaunch&) {});
}

Artifact FakeKernels(const std::string& architecture) {
  Program program = CeilingProgram(architecture);
  program.name_expressions.assign(std::begin(kSymbols), std::end(kSymbols));
  FakeCompiler compiler;
  return *compiler.Compile(program, {})->artifact;
}

std::vector<std::string> NamesOf(const std::vector<Ceiling>& ceilings) {
  std::vector<std::string> names;
  for (const Ceiling& ceiling : ceilings) names.push_back(ceiling.name);
  return names;
}

TEST(FakeCeilingsTest, RatesFollowFromTimesAndTheFastestWayIsNamed) {
  FakeDevice device;
  GiveKernels(device);
  device.SetMemoryBytes(256 << 20);
  device.MakeSequences();
  device.SetTiming("hone_copy_1", {200e3});
  device.SetTiming("hone_copy_4", {150e3, 160e3});
  device.SetTiming("hone_copy_8", {110e3, 100e3});
  device.SetTiming("hone_empty", {1700});
  device.SetTiming("hone_rate", {1e6});
  const auto ceilings = MeasureCeilings(device, FakeKernels("sm_90a"), 0);
  ASSERT_THAT(ceilings, IsOk());
  EXPECT_THAT(NamesOf(*ceilings),
              testing::ElementsAre("copy", "f32", "mma_sync_tf32", "mma_sync_f16", "mma_sync_bf16",
                                   "mma_sync_fp8", "wgmma_tf32", "wgmma_f16", "wgmma_bf16",
                                   "wgmma_fp8", "launch"));
  // A quarter of the memory, each byte read and written once.
  EXPECT_NEAR((*ceilings)[0].value, 2.0 * (64 << 20) / 100e3, 1e-6);
  EXPECT_EQ((*ceilings)[0].how, "16-byte accesses, 8 in flight");
  EXPECT_EQ((*ceilings)[0].unit, "GB/s");
  // 132 multiprocessors with 8 blocks of 256 threads, 128 multiply-adds a thread and step.
  const double flops = 132.0 * 8 * 256 * 128 * 2 * 64;
  EXPECT_NEAR((*ceilings)[1].value, flops / 1e6 / 1e3, 1e-9);
  EXPECT_EQ((*ceilings)[10].value, 1700);
}

TEST(FakeCeilingsTest, OlderArchitecturesHaveWhatTheyHave) {
  for (const auto& [architecture, fp8] : {std::pair("sm_80", false), {"sm_89", true}}) {
    FakeDevice device;
    GiveKernels(device);
    device.SetMemoryBytes(256 << 20);
    const auto ceilings = MeasureCeilings(device, FakeKernels(architecture), 0);
    ASSERT_THAT(ceilings, IsOk());
    const std::vector<std::string> names = NamesOf(*ceilings);
    EXPECT_THAT(names, Contains("mma_sync_bf16"));
    EXPECT_THAT(names, Not(Contains("wgmma_bf16")));
    EXPECT_EQ(std::count(names.begin(), names.end(), "mma_sync_fp8"), fp8 ? 1 : 0) << architecture;
  }
}

TEST(FakeCeilingsTest, NothingIsLeftOnTheDevice) {
  FakeDevice device;
  GiveKernels(device);
  device.SetMemoryBytes(256 << 20);
  device.SetFlushBytes(1 << 20);
  ASSERT_THAT(MeasureCeilings(device, FakeKernels("sm_90a"), 0), IsOk());
  EXPECT_EQ(device.allocated_bytes(), 0);
  EXPECT_EQ(device.modules(), 0);
}

TEST(FakeCeilingsTest, TooLittleMemoryIsSaid) {
  FakeDevice device;
  GiveKernels(device);
  device.SetMemoryBytes(1 << 20);
  EXPECT_THAT(MeasureCeilings(device, FakeKernels("sm_80"), 0),
              StatusIs(absl::StatusCode::kResourceExhausted, testing::HasSubstr("allocation")));
  EXPECT_EQ(device.allocated_bytes(), 0);
}

TEST(FakeCeilingsTest, ALimitOfMemoryIsKept) {
  FakeDevice device;
  GiveKernels(device);
  device.SetMemoryBytes(1 << 30);
  device.SetFlushBytes(4 << 20);
  EXPECT_THAT(MeasureCeilings(device, FakeKernels("sm_80"), 8 << 20),
              StatusIs(absl::StatusCode::kResourceExhausted, testing::HasSubstr("ceilings")));
  device.SetTiming("hone_copy", {100e3});
  const auto ceilings = MeasureCeilings(device, FakeKernels("sm_80"), 40 << 20);
  ASSERT_THAT(ceilings, IsOk());
  // Beside what is flushed, two buffers of 16 MiB.
  EXPECT_NEAR((*ceilings)[0].value, 2.0 * (16 << 20) / 100e3, 1e-6);
}

TEST(CpuCeilingsTest, TheCpuDeviceReachesSomething) {
  const auto compiler = HostCompiler::Create({});
  ASSERT_THAT(compiler, IsOk());
  const auto compiled = (*compiler)->Compile(CeilingProgram("cpu"), {});
  ASSERT_THAT(compiled, IsOk());
  ASSERT_TRUE(compiled->artifact.has_value()) << compiled->log;
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const auto ceilings = MeasureCeilings(*device, *compiled->artifact, 0);
  ASSERT_THAT(ceilings, IsOk());
  EXPECT_THAT(NamesOf(*ceilings), testing::ElementsAre("copy", "f32", "launch"));
  for (const Ceiling& ceiling : *ceilings) {
    EXPECT_GT(ceiling.value, 0) << ceiling.name;
    EXPECT_NE(ceiling.how, "") << ceiling.name;
  }
  // Bounds that a machine of the last fifteen years and of the next ten keeps, whoever else runs on
  // it: a unit off by a thousand does not.
  EXPECT_GT((*ceilings)[0].value, 0.1);
  EXPECT_LT((*ceilings)[0].value, 10'000);
  EXPECT_GT((*ceilings)[1].value, 1e-4);
  EXPECT_LT((*ceilings)[1].value, 1'000);
}

}  // namespace
}  // namespace hone
