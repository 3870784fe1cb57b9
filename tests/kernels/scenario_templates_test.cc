// The templates that scenarios are played with do what they claim, as far as one process can show:
// what hangs or crashes is left to tests with workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/host_compiler.h"
#include "runtime/device/device_profiler.h"
#include "tests/kernels/kernel_samples.h"

namespace hone {
namespace {

using testing::Contains;
using testing::HasSubstr;

Compiler& TheCompiler() {
  static const std::unique_ptr<Compiler> compiler = HostCompiler::Create({}).value();
  return *compiler;
}

std::unique_ptr<Catalog> LoadTemplates(const std::string& below = "") {
  return Catalog::Create(std::string(HONE_SCENARIO_TEMPLATES) + below, nullptr);
}

// A template's configs, checked one after the other on the CPU device.
class ScenarioTemplatesTest : public testing::Test {
 protected:
  void Begin(const std::string& name, const std::string& params, std::vector<std::string> configs) {
    template_ = FindTemplate(*catalog_, name);
    ASSERT_NE(template_, nullptr);
    std::vector<Config> parsed;
    for (const std::string& config : configs) parsed.push_back(Config::Parse(config).value());
    bench_ = std::make_unique<CpuBench>(&TheCompiler(), device_.get(), template_,
                                        ProblemOf(*template_, params), parsed);
    ASSERT_TRUE(bench_->outcome().artifact.has_value()) << bench_->outcome().log;
    const absl::Status begun = profiler_.Begin(bench_->ProblemToProfile());
    ASSERT_TRUE(begun.ok()) << begun;
  }
  CheckResult Check(const std::string& config) {
    ProfileCandidate candidate = bench_->CandidateOf(Config::Parse(config).value(), {});
    candidate.id = ++id_;
    const absl::StatusOr<CheckResult> result = profiler_.Check(candidate);
    EXPECT_TRUE(result.ok()) << config << ": " << result.status();
    return result.value_or(CheckResult());
  }
  // "" if the candidate is right.
  std::string RejectionOf(const std::string& config) {
    const CheckResult result = Check(config);
    return result.rejection.has_value() ? Name(result.rejection->kind) : "";
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice();
  const std::unique_ptr<Catalog> catalog_ = LoadTemplates();
  KernelTemplatePtr template_;
  std::unique_ptr<CpuBench> bench_;
  DeviceProfiler profiler_{device_.get()};
  int64_t id_ = 0;
};

TEST_F(ScenarioTemplatesTest, LoadWithoutProblemsOfTheirOwn) {
  for (const char* name : {"hostile", "scale_in_place", "tail_sum", "unverified", "with_headers",
                           "namespaced", "triton_add"}) {
    EXPECT_NE(FindTemplate(*catalog_, name), nullptr) << name;
  }
}

// Acceptance 4; scenario P27 too: a wrong and fast candidate is not believed.
TEST_F(ScenarioTemplatesTest, HostileCandidatesAreCaughtByKind) {
  // A size without a tail, as the seventh would have it.
  Begin("hostile", "n=65536", {"KIND=1", "KIND=3", "KIND=6", "KIND=7", "KIND=8"});
  EXPECT_EQ(RejectionOf("KIND=1"), "");
  EXPECT_EQ(RejectionOf("KIND=3"), "illegal_access");
  EXPECT_EQ(RejectionOf("KIND=6"), "wrong_result");
  EXPECT_EQ(RejectionOf("KIND=7"), "wrong_result");
  EXPECT_EQ(RejectionOf("KIND=8"), "");
}

TEST_F(ScenarioTemplatesTest, TheSlowHostileCandidateIsSlowerThanTheGoodOne) {
  Begin("hostile", "n=1048576", {"KIND=1", "KIND=8"});
  ASSERT_EQ(RejectionOf("KIND=1"), "");
  const int64_t good = id_;
  ASSERT_EQ(RejectionOf("KIND=8"), "");
  const std::vector<double> fast = profiler_.Sample(good, 5)->samples_ns;
  const std::vector<double> slow = profiler_.Sample(id_, 5)->samples_ns;
  EXPECT_LT(*std::min_element(fast.begin(), fast.end()),
            *std::min_element(slow.begin(), slow.end()));
}

// scenario P24
TEST_F(ScenarioTemplatesTest, TheSecondHostileCandidateDoesNotCompile) {
  const KernelTemplatePtr hostile = FindTemplate(*catalog_, "hostile");
  const CpuBench bench(&TheCompiler(), device_.get(), hostile, ProblemOf(*hostile, "n=256"),
                       {Config::Parse("KIND=2").value()});
  ASSERT_TRUE(bench.outcome().rejection.has_value());
  EXPECT_EQ(bench.outcome().rejection->kind, RejectionKind::kCompile);
  EXPECT_THAT(bench.outcome().log, HasSubstr("candidate 2 is not meant to compile"));
}

// scenario P24
TEST_F(ScenarioTemplatesTest, TheFifthHostileCandidateAsksForMoreSharedMemoryThanThereIs) {
  const KernelTemplatePtr hostile = FindTemplate(*catalog_, "hostile");
  const DeviceFacts h200 = {{"device.shared_bytes_per_block_max", 232448}};
  const absl::StatusOr<LaunchRecipe> recipe =
      InstantiateRecipe(*hostile, ProblemOf(*hostile, "n=256"), Config::Parse("KIND=5").value(),
                        "sm_90a", h200, {{"hostile<5>", "kernel"}});
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  EXPECT_EQ(recipe->steps[0].launch.dynamic_shared_bytes.Evaluate(SizeBindings()).value(), 233472);
}

// scenario P28
TEST_F(ScenarioTemplatesTest, InPlaceKernelsStartFromTheSameInputEachTime) {
  Begin("scale_in_place", "n=10007", {"XBLOCK=64", "XBLOCK=128", "XBLOCK=256"});
  for (const char* config : {"XBLOCK=64", "XBLOCK=128", "XBLOCK=256"}) {
    EXPECT_EQ(RejectionOf(config), "") << config;
    // 1.5 to the power of 300 overflows a float; the next check would see it.
    ASSERT_TRUE(profiler_.Sample(id_, 300).ok());
  }
  EXPECT_EQ(RejectionOf("XBLOCK=64"), "");
}

// scenario P27
TEST_F(ScenarioTemplatesTest, ASumWithoutItsTailIsWrong) {
  const std::vector<std::string> configs = {"KIND=1", "KIND=2", "KIND=3", "KIND=4"};
  Begin("tail_sum", "n=65636", configs);
  EXPECT_EQ(RejectionOf("KIND=1"), "");
  EXPECT_EQ(RejectionOf("KIND=4"), "wrong_result");
}

// scenario P27
TEST_F(ScenarioTemplatesTest, WithoutAReferenceDisagreementIsReportedAndNothingIsVerified) {
  Begin("unverified", "n=65636", {"KIND=1", "KIND=2", "KIND=3", "KIND=4"});
  const CheckResult first = Check("KIND=1");
  EXPECT_FALSE(first.rejection.has_value());
  EXPECT_FALSE(first.verified);
  EXPECT_EQ(RejectionOf("KIND=2"), "");
  EXPECT_EQ(RejectionOf("KIND=4"), "wrong_result");
}

// scenario P16: the header behind a header is found and counts.
TEST_F(ScenarioTemplatesTest, HeadersOfHeadersAreFound) {
  Begin("with_headers", "n=1000", {"XBLOCK=64"});
  EXPECT_EQ(RejectionOf("XBLOCK=64"), "");
}

// scenario P07
TEST_F(ScenarioTemplatesTest, NamespacedKernelsAreFoundByName) {
  Begin("namespaced", "T=F16 n=1000", {"N=2", "N=128"});
  EXPECT_THAT(bench_->outcome().artifact->lowered_names,
              Contains(testing::Key("a::b::axpy<__half, 2>")));
  EXPECT_EQ(RejectionOf("N=2"), "");
  EXPECT_EQ(RejectionOf("N=128"), "");
}

TEST_F(ScenarioTemplatesTest, KernelsOfOneNameAndDifferentBodiesHaveDifferentDigests) {
  const auto a = LoadTemplates("/two_same_name_a");
  const auto b = LoadTemplates("/two_same_name_b");
  const KernelTemplatePtr first = FindTemplate(*a, "same_name");
  const KernelTemplatePtr second = FindTemplate(*b, "same_name");
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first->digest(), second->digest());
  EXPECT_NE(first->kernel_digest(), second->kernel_digest());
}

TEST_F(ScenarioTemplatesTest, ATemplateWaitingForAHeaderSetNamesIt) {
  std::string problems;
  for (const CatalogProblem& problem : catalog_->Problems()) {
    problems += problem.location + ": " + problem.message + "\n";
  }
  EXPECT_THAT(problems, HasSubstr("cutlass"));
}

TEST_F(ScenarioTemplatesTest, TritonsBinariesComeWithAnArgumentForEachParameter) {
  const KernelTemplatePtr triton = FindTemplate(*catalog_, "triton_add");
  ASSERT_NE(triton, nullptr);
  const Problem problem = ProblemOf(*triton, "n=4096");
  for (const char* text : {"WARPS=4 N_MULTIPLE=1", "WARPS=8 N_MULTIPLE=16"}) {
    const Config config = Config::Parse(text).value();
    const absl::StatusOr<LaunchRecipe> recipe =
        InstantiateRecipe(*triton, problem, config, "sm_90a", {}, {});
    ASSERT_TRUE(recipe.ok()) << recipe.status();
    EXPECT_EQ(recipe->steps.at(0).symbol, "triton_add");
    // x, y, out, n and Triton's two.
    EXPECT_EQ(recipe->steps.at(0).arguments.size(), 6u);
  }
}

}  // namespace
}  // namespace hone
