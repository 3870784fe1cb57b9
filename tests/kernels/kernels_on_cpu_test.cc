// Every kernel of the catalog, compiled by the real host compiler and checked against its reference
// on the CPU reference device, at the tuned size, at hone's small sizes and at odd ones.
#include <gtest/gtest.h>

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

INSTANTIATE_TEST_SUITE_P(Catalog, KernelsOnCpuTest, testing::ValuesIn(KernelSamples()),
                         [](const auto& test) { return NameOf(test.param); });

}  // namespace
}  // namespace hone
