// Every kernel of the catalog, compiled by the real host compiler and checked against its reference
// on the CPU reference device, at the tuned size, at hone's small sizes and at odd ones.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/host_compiler.h"
#include "runtime/device/device_profiler.h"
#include "tests/kernels/kernel_samples.h"

namespace hone {
namespace {

Compiler& TheCompiler() {
  // Shared: it starts with a precompiled header after a few kernels.
  static const std::unique_ptr<Compiler> compiler = HostCompiler::Create({}).value();
  return *compiler;
}

class KernelsOnCpuTest : public testing::TestWithParam<KernelSample> {};

TEST_P(KernelsOnCpuTest, SampledConfigsAreRight) {
  const KernelSample& sample = GetParam();
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const KernelTemplatePtr found = FindTemplate(TheCatalog(), sample.kernel);
  ASSERT_NE(found, nullptr);
  const Problem problem = ProblemOf(*found, sample.params);
  const absl::StatusOr<ConfigSpace> space =
      ConfigSpace::Create(found, problem, "cpu", device->info().Facts());
  ASSERT_TRUE(space.ok()) << space.status();
  const std::vector<Config> configs = SampleConfigs(*space, 4);
  const CpuBench bench(&TheCompiler(), device.get(), found, problem, configs);
  ASSERT_TRUE(bench.outcome().artifact.has_value()) << bench.outcome().log;

  std::vector<SizeBindings> more;
  for (const std::string& sizes : sample.sizes) {
    // A later value of a parameter replaces an earlier one.
    more.push_back(ProblemOf(*found, sample.params + " " + sizes).dynamic_sizes());
  }

  DeviceProfiler profiler(device.get());
  const absl::Status begun = profiler.Begin(bench.ProblemToProfile());
  ASSERT_TRUE(begun.ok()) << begun;
  int64_t id = 0;
  for (const Config& config : configs) {
    ProfileCandidate candidate = bench.CandidateOf(config, more);
    candidate.id = ++id;
    const absl::StatusOr<CheckResult> checked = profiler.Check(candidate);
    ASSERT_TRUE(checked.ok()) << config.ToString() << ": " << checked.status();
    EXPECT_FALSE(checked->rejection.has_value())
        << config.ToString() << ": " << checked->rejection->detail;
    EXPECT_TRUE(checked->verified) << config.ToString();
    EXPECT_GE(checked->verified_sizes.size(), 1 + candidate.check_sizes.size() / 2)
        << config.ToString();
    const absl::StatusOr<SampleResult> timed = profiler.Sample(id, 1);
    ASSERT_TRUE(timed.ok()) << timed.status();
    ASSERT_EQ(timed->samples_ns.size(), 1u);
    EXPECT_GT(timed->samples_ns[0], 0);
  }
}

// Attention masks: -inf counts nothing, and a row of it alone has no softmax.
TEST(SoftmaxOnCpuTest, MaskedElementsAreZeroAndMaskedRowsAreNaN) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  constexpr int kCols = 64;
  std::vector<float> input(2 * kCols, kMasked);
  input[3] = 1.0f;
  input[40] = 1.0f;

  const std::unique_ptr<Device> device = MakeCpuDevice();
  const KernelTemplatePtr found = FindTemplate(TheCatalog(), "softmax");
  const Problem problem = ProblemOf(*found, "T=F32 rows=2 cols=64");
  std::vector<Config> configs;
  for (const char* text : {"THREADS_PER_ROW=32 ROWS_PER_BLOCK=1 CLUSTER=1 VEC=1 KEEP=0 CACHE=0",
                           "THREADS_PER_ROW=32 ROWS_PER_BLOCK=4 CLUSTER=1 VEC=4 KEEP=1 CACHE=0",
                           "THREADS_PER_ROW=1 ROWS_PER_BLOCK=32 CLUSTER=1 VEC=4 KEEP=2 CACHE=0"}) {
    configs.push_back(Config::Parse(text).value());
  }
  const CpuBench bench(&TheCompiler(), device.get(), found, problem, configs);
  ASSERT_TRUE(bench.outcome().artifact.has_value()) << bench.outcome().log;
  const auto module = device->Load(*bench.outcome().artifact);
  ASSERT_TRUE(module.ok()) << module.status();
  const int64_t bytes = static_cast<int64_t>(input.size() * sizeof(float));
  const uint64_t x = device->Allocate(bytes).value();
  const uint64_t y = device->Allocate(bytes).value();
  ASSERT_TRUE(device->CopyToDevice(x, input.data(), bytes).ok());
  for (const Config& config : configs) {
    const LaunchRecipe recipe = bench.CandidateOf(config, {}).recipe;
    LaunchArguments arguments;
    arguments.sizes = problem.dynamic_sizes();
    arguments.buffers["x"].address = x;
    arguments.buffers["y"].address = y;
    const absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(recipe, arguments);
    ASSERT_TRUE(launch.ok()) << launch.status();
    ASSERT_TRUE(device->Launch(**module, *launch).ok());
    ASSERT_TRUE(device->Synchronize().ok());
    std::vector<float> output(input.size());
    ASSERT_TRUE(device->CopyToHost(output.data(), y, bytes).ok());
    for (int c = 0; c < kCols; ++c) {
      EXPECT_EQ(output[c], c == 3 || c == 40 ? 0.5f : 0.0f) << config.ToString() << " " << c;
      EXPECT_TRUE(std::isnan(output[kCols + c])) << config.ToString() << " " << c;
    }
  }
  device->Free(x);
  device->Free(y);
}

INSTANTIATE_TEST_SUITE_P(Catalog, KernelsOnCpuTest, testing::ValuesIn(KernelSamplesFor("cpu")),
                         [](const auto& test) { return NameOf(test.param); });

}  // namespace
}  // namespace hone
