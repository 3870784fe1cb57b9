// What the chain check lets pass and what it does not, with real kernels on the CPU reference
// device.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/host_compiler.h"
#include "runtime/device/chain_expectation.h"
#include "runtime/device/device_profiler.h"
#include "tests/generate/chain_texts.h"
#include "tests/kernels/kernel_samples.h"

namespace hone {
namespace {

Compiler& ElementwiseCompiler() {
  static const std::unique_ptr<Compiler> compiler = HostCompiler::Create({}).value();
  return *compiler;
}

std::vector<Config> OneConfig() {
  return {Config::Parse("XBLOCK=256 VEC=4 ITEMS=1 CACHE=0").value()};
}

// The kernel of one chain held against another's right results.
CheckResult CheckAgainst(const std::string& computed, const std::string& claimed) {
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const KernelTemplatePtr found = FindTemplate(TheCatalog(), "elementwise");
  const std::string sizes = " rows=300 cols=1000";
  const CpuBench bench(&ElementwiseCompiler(), device.get(), found,
                       ProblemOf(*found, computed + sizes), OneConfig());
  EXPECT_TRUE(bench.outcome().artifact.has_value()) << bench.outcome().log;
  ProfileProblem problem = bench.ProblemToProfile();
  problem.check =
      InstantiateCheckPlan(*found, ProblemOf(*found, claimed + sizes), "cpu", {}, {}).value();
  DeviceProfiler profiler(device.get());
  EXPECT_TRUE(profiler.Begin(problem).ok());
  ProfileCandidate candidate = bench.CandidateOf(OneConfig().front(), {});
  candidate.id = 1;
  return profiler.Check(candidate).value();
}

TEST(ElementwiseOnCpuTest, AWrongResultIsRejectedAtEveryPrecision) {
  for (const std::string types : {" A=F32", " A=BF16", " A=F16 OUT=F8E4M3"}) {
    const CheckResult right = CheckAgainst("f=silu(a)*b" + types, "f=silu(a)*b" + types);
    EXPECT_FALSE(right.rejection.has_value()) << types << ": " << right.rejection->detail;
    EXPECT_TRUE(right.verified);
    // A third of a percent more than right, which a tolerance of 1 % would not see.
    const CheckResult wrong = CheckAgainst("f=silu(a)*b*1.004" + types, "f=silu(a)*b" + types);
    ASSERT_TRUE(wrong.rejection.has_value()) << types;
    EXPECT_EQ(wrong.rejection->kind, RejectionKind::kWrongResult);
    EXPECT_NE(wrong.rejection->detail.find("wrong result in out"), std::string::npos)
        << wrong.rejection->detail;
  }
}

TEST(ElementwiseOnCpuTest, NearMissesOfSinglePrecisionAreRejected) {
  // gelu by erf and by tanh differ by 5e-4 at most.
  EXPECT_TRUE(CheckAgainst("f=gelu(a)", "f=gelu_tanh(a)").rejection.has_value());
  EXPECT_TRUE(CheckAgainst("f=a+b*1.00001", "f=a+b*1").rejection.has_value());
  EXPECT_TRUE(CheckAgainst("f=max(a,b)", "f=where(a<b,a,b)").rejection.has_value());
}

TEST(ElementwiseOnCpuTest, AChainThatRoundingDecidesIsNotCalledVerified) {
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const KernelTemplatePtr found = FindTemplate(TheCatalog(), "elementwise");
  const CpuBench bench(&ElementwiseCompiler(), device.get(), found,
                       ProblemOf(*found, "f=b/(a*alpha-a*alpha*1) A=F32 rows=10 cols=100"),
                       OneConfig());
  DeviceProfiler profiler(device.get());
  const absl::Status begun = profiler.Begin(bench.ProblemToProfile());
  ASSERT_FALSE(begun.ok());
  EXPECT_NE(begun.message().find("rounding decides every result"), std::string::npos) << begun;
}

// One problem of a sweep, drawn from a seeded generator.
struct Drawn {
  std::string params;
  std::vector<std::string> sizes;
};

Drawn Draw(std::mt19937& random) {
  const auto below = [&](size_t limit) { return random() % limit; };
  constexpr const char* kTypes[] = {"F32", "F16", "BF16", "F8E4M3"};
  constexpr const char* kShapes[] = {"full", "full", "row", "column", "scalar"};
  const ChainNames names{.inputs = {"a", "b", "c", "d", "scale"}, .scalars = {"alpha", "beta"}};
  Drawn drawn;
  const std::string text = RandomChainText(random, names, 3);
  drawn.params = absl::StrCat("f=", Chain::Parse(text, names)->text(), " OUT=", kTypes[below(4)]);
  for (const char* input : {"A", "B", "C", "D"}) {
    absl::StrAppend(&drawn.params, " ", input, "=", kTypes[below(4)], " ", input,
                    "_SHAPE=", kShapes[below(5)]);
  }
  const auto size = [&] { return absl::StrCat("rows=", below(70), " cols=", below(300)); };
  for (int i = 0; i < 4; ++i) drawn.sizes.push_back(size());
  absl::StrAppend(&drawn.params, " rows=", 1 + below(70), " cols=", 1 + below(300));
  return drawn;
}

TEST(ElementwiseOnCpuTest, RandomChainsTypesShapesAndSizesAreRight) {
  const KernelTemplatePtr found = FindTemplate(TheCatalog(), "elementwise");
  std::mt19937 random(5);
  int checked = 0;
  for (int i = 0; i < 12; ++i) {
    const Drawn drawn = Draw(random);
    const std::unique_ptr<Device> device = MakeCpuDevice();
    const Problem problem = ProblemOf(*found, drawn.params);
    const std::vector<Config> configs =
        ConfigSpace::Create(found, problem, "cpu", device->info().Facts())
            ->ValidConfigs(4096)
            .value();
    const Config config = configs[random() % configs.size()];
    const std::string what = drawn.params + " " + config.ToString();
    const CpuBench bench(&ElementwiseCompiler(), device.get(), found, problem, {config});
    ASSERT_TRUE(bench.outcome().artifact.has_value()) << what << ": " << bench.outcome().log;
    DeviceProfiler profiler(device.get());
    const absl::Status begun = profiler.Begin(bench.ProblemToProfile());
    if (!begun.ok()) {
      EXPECT_NE(begun.message().find("rounding decides every"), std::string::npos) << begun;
      continue;
    }
    std::vector<SizeBindings> more;
    for (const std::string& sizes : drawn.sizes) {
      more.push_back(ProblemOf(*found, drawn.params + " " + sizes).dynamic_sizes());
    }
    ProfileCandidate candidate = bench.CandidateOf(config, more);
    candidate.id = 1;
    const absl::StatusOr<CheckResult> result = profiler.Check(candidate);
    ASSERT_TRUE(result.ok()) << what << ": " << result.status();
    EXPECT_FALSE(result->rejection.has_value()) << what << ": " << result->rejection->detail;
    checked += result->verified ? 1 : 0;
  }
  EXPECT_GE(checked, 8);
}

int64_t Covered(const std::vector<ElementRange>& ranges) {
  int64_t elements = 0;
  for (const ElementRange& range : ranges) elements += range.end - range.begin;
  return elements;
}

bool Covers(const std::vector<ElementRange>& ranges, int64_t element) {
  for (const ElementRange& range : ranges) {
    if (range.begin <= element && element < range.end) return true;
  }
  return false;
}

TEST(SampledRangesTest, SmallOutputsAreCheckedWhole) {
  EXPECT_TRUE(SampledRanges({0, 5}).empty());
  EXPECT_TRUE(SampledRanges({7, 0}).empty());
  const std::vector<ElementRange> ranges = SampledRanges({512, 512});
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].begin, 0);
  EXPECT_EQ(ranges[0].end, 512 * 512);
}

TEST(SampledRangesTest, LargeOutputsAtBothEndsAndWhereIntegersOverflow) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1 << 20, 8192},
                                            {8192, 1 << 20},
                                            {int64_t{1} << 33, 1},
                                            {1, int64_t{1} << 33},
                                            {(int64_t{1} << 21) + 1, 4097}}) {
    const int64_t elements = shape[0] * shape[1];
    const std::vector<ElementRange> ranges = SampledRanges(shape);
    EXPECT_TRUE(Covers(ranges, 0));
    EXPECT_TRUE(Covers(ranges, elements - 1));
    EXPECT_TRUE(Covers(ranges, (int64_t{1} << 31) - 1));
    EXPECT_TRUE(Covers(ranges, int64_t{1} << 31));
    EXPECT_TRUE(Covers(ranges, int64_t{1} << 32));
    EXPECT_EQ(ranges.size(), 64u);
    EXPECT_LE(Covered(ranges), 1 << 19);
    for (const ElementRange& range : ranges) {
      EXPECT_LT(range.begin, range.end);
      EXPECT_LE(range.end, elements);
    }
  }
}

}  // namespace
}  // namespace hone
