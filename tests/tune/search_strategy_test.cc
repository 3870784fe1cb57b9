#include "runtime/tune/search_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "tests/testing/simple_template.h"
#include "tests/testing/status_matchers.h"
#include "tests/tune/synthetic_space.h"

namespace hone {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

SearchSpacePtr Space(const SimpleTemplateOptions& options) {
  const KernelTemplatePtr made = SimpleTemplate(options);
  return SearchSpace::Of(
      *ConfigSpace::Create(made, *Problem::Create(*made, {{"n", int64_t{4096}}}), "sm_90a", {}));
}

std::vector<std::string> Texts(const std::vector<Config>& configs) {
  std::vector<std::string> texts;
  for (const Config& config : configs) texts.push_back(config.ToString());
  return texts;
}

double SumOfValues(const Config& config) {
  double sum = 0;
  for (const auto& [name, value] : config.values()) sum += static_cast<double>(value);
  return sum;
}

Measurement MeasureSum(const Config& config) { return Timed(config, 1000 + SumOfValues(config)); }

std::vector<std::string> Drain(SearchStrategy& strategy) {
  return Texts(Search(strategy, MeasureSum, 1'000'000));
}

SimpleTemplateOptions Small() { return {.xblock = {64, 128}, .vec = {1, 4}}; }

TEST(SearchStrategyTest, ExhaustiveGoesInDeclarationOrderAfterTheSeeds) {
  auto strategy = MakeExhaustive(Space(Small()), {*Config::Parse("XBLOCK=128 VEC=1")});
  EXPECT_THAT(Drain(*strategy), ElementsAre("XBLOCK=128 VEC=1", "XBLOCK=64 VEC=1",
                                            "XBLOCK=64 VEC=4", "XBLOCK=128 VEC=4"));
}

TEST(SearchStrategyTest, EmptyNameChoosesByBudget) {
  const SearchSpacePtr space = Space({});  // six configs
  const auto learns = [&](const SearchBudget& budget) {
    return (*MakeStrategy("", space, {}, budget, 1))->learns();
  };
  EXPECT_FALSE(learns({}));
  EXPECT_FALSE(learns({.evaluations_max = 6}));
  EXPECT_FALSE(learns({.evaluations_max = 6, .other_limit = true}));
  EXPECT_TRUE(learns({.evaluations_max = 5}));
  EXPECT_TRUE(learns({.other_limit = true}));
  EXPECT_EQ(Drain(**MakeStrategy("", space, {}, {.evaluations_max = 6}, 1)).front(),
            "XBLOCK=64 VEC=1");
}

TEST(SearchStrategyTest, UnknownNameIsRefusedWithTheKnownOnes) {
  EXPECT_THAT(
      MakeStrategy("annealing", Space({}), {}, {}, 1),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("'annealing' is unknown; use exhaustive, random, local or model")));
}

// 2^22 configs, or 2^64 where `tunables` is 32.
SearchSpacePtr Large(int tunables) {
  std::vector<SearchSpace::Dimension> dimensions;
  TemplateSpec spec = SimpleSpec({.xblock = {64}, .vec = {1}});
  for (int i = 0; i < tunables; ++i) {
    spec.base.tunables.push_back({.name = "T" + std::to_string(i),
                                  .description = {},
                                  .values = {1, 2, 3, 4},
                                  .default_value = 1,
                                  .per_architecture = {}});
  }
  const auto made = KernelTemplate::Create(std::move(spec));
  EXPECT_THAT(made, IsOk());
  return SearchSpace::Of(
      *ConfigSpace::Create(*made, *Problem::Create(**made, {{"n", int64_t{4096}}}), "sm_90a", {}));
}

TEST(SearchStrategyTest, ALargeSpaceNeedsALimit) {
  const SearchSpacePtr space = Large(11);
  EXPECT_THAT(MakeStrategy("", space, {}, {}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("4194304 valid configs"), HasSubstr("1048576"),
                                      HasSubstr("evaluations_max, seconds_max or patience"))));
  EXPECT_THAT(MakeStrategy("random", space, {}, {}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("budget")));
  EXPECT_THAT(MakeStrategy("", space, {}, {.evaluations_max = 10}, 1), IsOk());
  EXPECT_THAT(MakeStrategy("", space, {}, {.other_limit = true}, 1), IsOk());
  EXPECT_THAT(MakeStrategy("exhaustive", space, {}, {}, 1), IsOk()) << "when asked for by name";
  EXPECT_THAT(MakeStrategy("exhaustive", Large(32), {}, {.evaluations_max = 10}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("strategy"), HasSubstr("about 1.8e+19"))));
}

// What holds whatever the strategy.
class EveryStrategyTest : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<SearchStrategy> Make(SearchSpacePtr space, std::vector<Config> seeds = {},
                                       uint64_t seed = 1) {
    auto strategy =
        MakeStrategy(GetParam(), std::move(space), std::move(seeds), {.other_limit = true}, seed);
    EXPECT_THAT(strategy, IsOk());
    return *std::move(strategy);
  }
  // 4 * 5 * 3 * 2 configs, of which 80 satisfy a condition.
  SearchSpacePtr Constrained() {
    return ProductSpace(
        {{"A", {1, 2, 4, 8}}, {"B", {16, 48, 96, 128, 80}}, {"C", {3, 1, 2}}, {"FLAG", {0, 1}}},
        [](const std::vector<int64_t>& v) { return (v[0] * v[2] + v[1] / 16) % 3; });
  }
};

TEST_P(EveryStrategyTest, CoversTheSpaceProposingEachValidConfigOnce) {
  const SearchSpacePtr space = Constrained();
  for (const size_t in_flight : {1u, 7u}) {
    const auto strategy = Make(space);
    const std::vector<Config> proposed = Search(*strategy, MeasureSum, 1000, in_flight);
    EXPECT_EQ(proposed.size(), static_cast<size_t>(space->points()->size()));
    std::set<Config> distinct(proposed.begin(), proposed.end());
    EXPECT_EQ(distinct.size(), proposed.size());
    for (const Config& config : proposed) EXPECT_TRUE(space->PointOf(config)) << config.ToString();
    EXPECT_EQ(strategy->Next(), std::nullopt);
  }
}

TEST_P(EveryStrategyTest, DependsOnSeedAndResultsOnly) {
  const SearchSpacePtr space = Constrained();
  const auto run = [&](uint64_t seed, size_t in_flight) {
    return Texts(Search(*Make(space, {}, seed), MeasureSum, 40, in_flight));
  };
  EXPECT_EQ(run(1, 1), run(1, 1));
  EXPECT_EQ(run(1, 5), run(1, 5));
  EXPECT_EQ(run(1, 1) == run(2, 1), GetParam() == "exhaustive");
}

TEST_P(EveryStrategyTest, SeedsComeFirstInOrderAndInvalidOnesArePassedOver) {
  const SearchSpacePtr space = Constrained();
  const Config a = space->ConfigAt(space->points()->At(50));
  const Config b = space->ConfigAt(space->points()->At(7));
  const Config elsewhere = *Config::Parse("A=3 B=16 C=3 FLAG=0");
  const auto proposed = Texts(Search(*Make(space, {a, elsewhere, a, b}), MeasureSum, 3));
  EXPECT_EQ(proposed[0], a.ToString());
  EXPECT_EQ(proposed[1], b.ToString());
  EXPECT_NE(proposed[2], a.ToString());
}

TEST_P(EveryStrategyTest, WhatIsKnownAlreadyIsNotProposed) {
  const SearchSpacePtr space = Constrained();
  const auto strategy = Make(space);
  std::vector<std::string> known;
  for (const int64_t rank : {0, 1, 2, 30, 60}) {
    const Config config = space->ConfigAt(space->points()->At(rank));
    known.push_back(config.ToString());
    strategy->Observe(MeasureSum(config));
    strategy->Observe(MeasureSum(config));  // told twice
  }
  // Another version of the template may have had other values.
  strategy->Observe(Timed(*Config::Parse("A=1024 B=16 C=3 FLAG=0"), 1));
  const std::vector<std::string> proposed = Drain(*strategy);
  EXPECT_THAT(proposed, SizeIs(static_cast<size_t>(space->points()->size()) - known.size()));
  for (const std::string& config : known) EXPECT_THAT(proposed, Not(Contains(config)));
}

TEST_P(EveryStrategyTest, EqualTimesAndRejectionsAreAsGoodAsAnyResult) {
  const SearchSpacePtr space = Constrained();
  const auto all = static_cast<size_t>(space->points()->size());
  int count = 0;
  const std::function<Measurement(const Config&)> measures[] = {
      [](const Config& config) { return Timed(config, 5000); },
      [](const Config& config) { return Rejected(config, RejectionKind::kCompile); },
      [&](const Config& config) {
        const RejectionKind kind = static_cast<RejectionKind>(1 + count % 9);
        return ++count % 5 == 0 ? Timed(config, 1 + count) : Rejected(config, kind);
      },
      // A lane that reports nonsense must not poison the search.
      [&](const Config& config) {
        const double times[] = {0, -1, std::numeric_limits<double>::infinity(), 1e-300, 1e300, 7};
        return Timed(config, times[++count % 6]);
      }};
  for (const auto& measure : measures) {
    EXPECT_EQ(Search(*Make(space), measure, 1000, 3).size(), all);
  }
}

TEST_P(EveryStrategyTest, SpacesOfOnePointAndOfNone) {
  EXPECT_THAT(Drain(*Make(ProductSpace({{"A", {4}}, {"B", {2}}}))), ElementsAre("A=4 B=2"));
  EXPECT_THAT(Drain(*Make(SearchSpace::Listed({}, {{}}))), ElementsAre(""));
  EXPECT_THAT(Drain(*Make(SearchSpace::Listed({{"A", {4, 8}}}, {}))), SizeIs(0));
  EXPECT_THAT(Drain(*Make(ProductSpace({{"A", {4}}, {"B", {2, 1}}}))), SizeIs(2));
}

TEST_P(EveryStrategyTest, WorksWherePointsCannotBeCounted) {
  if (GetParam() == "exhaustive") GTEST_SKIP() << "needs a count";
  const SearchSpacePtr space = Large(32);
  ASSERT_EQ(space->points(), nullptr);
  const auto strategy = Make(space);
  const std::vector<Config> proposed = Search(*strategy, MeasureSum, 60, 4);
  EXPECT_THAT(proposed, SizeIs(60));
  EXPECT_THAT(std::set<Config>(proposed.begin(), proposed.end()), SizeIs(60));
  for (const Config& config : proposed) EXPECT_TRUE(space->PointOf(config)) << config.ToString();
}

INSTANTIATE_TEST_SUITE_P(Strategies, EveryStrategyTest,
                         testing::Values("exhaustive", "random", "local", "model"),
                         [](const auto& instance) { return instance.param; });

// 16 * 9 * 8 * 8 * 2 * 2 configs; the time is a product of factors of one and two tunables, with
// its minimum at TILE=48 WARPS=4 M=2 N=16 A=1 B=1.
SearchSpacePtr KernelSpace() {
  std::vector<int64_t> tiles;
  for (int64_t i = 1; i <= 16; ++i) tiles.push_back(16 * i);
  return ProductSpace({{"TILE", tiles},
                       {"WARPS", {1, 2, 3, 4, 5, 6, 7, 8, 12}},
                       {"M", {1, 2, 4, 8, 16, 32, 64, 128}},
                       {"N", {1, 2, 4, 8, 16, 32, 64, 128}},
                       {"A", {0, 1}},
                       {"B", {0, 1}}});
}

double KernelTimeNs(const Config& config) {
  const auto log2 = [&](const char* name) { return std::log2(double(config.value(name))); };
  double log_time = std::pow(log2("TILE") - std::log2(48), 2) / 4;
  log_time += std::pow(log2("WARPS") - 2, 2) / 4;
  log_time += std::pow(log2("M") + log2("N") - 5, 2) / 20;
  log_time += std::pow(log2("M") - log2("N") + 3, 2) / 60;
  log_time += config.value("A") == 1 ? 0 : 0.2;
  log_time += config.value("A") == config.value("B") ? 0 : 0.5;
  return 10'000 * std::exp(log_time);
}

// Best possible time over the best found.
double FractionFound(const std::string& strategy, uint64_t seed, int evaluations,
                     size_t in_flight) {
  auto made = MakeStrategy(strategy, KernelSpace(), {}, {.other_limit = true}, seed);
  EXPECT_THAT(made, IsOk());
  double best_ns = std::numeric_limits<double>::infinity();
  Search(
      **made,
      [&](const Config& config) {
        best_ns = std::min(best_ns, KernelTimeNs(config));
        return Timed(config, KernelTimeNs(config));
      },
      evaluations, in_flight);
  return 10'000 / best_ns;
}

TEST(ModelGuidedTest, ComesNearTheOptimumOfAKernelLikeSpaceFromEverySeed) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    EXPECT_GE(FractionFound("model", seed, 100, 1), 0.9) << "seed " << seed;
  }
}

TEST(ModelGuidedTest, LateResultsCostSomeEvaluationsNotTheOptimum) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    EXPECT_GE(FractionFound("model", seed, 160, 16), 0.9) << "seed " << seed;
  }
}

TEST(ModelGuidedTest, SeedsThatAreNearTheOptimumAreUsed) {
  auto strategy = MakeModelGuided(KernelSpace(),
                                  {*Config::Parse("TILE=64 WARPS=4 M=2 N=16 A=1 B=1")}, /*seed=*/3);
  const std::vector<Config> proposed = Search(
      *strategy, [](const Config& config) { return Timed(config, KernelTimeNs(config)); }, 40);
  EXPECT_THAT(Texts(proposed), Contains("TILE=48 WARPS=4 M=2 N=16 A=1 B=1"));
}

TEST(ModelGuidedTest, LearnsWhereCandidatesAreRejected) {
  // Too much shared memory in five of eight configs, and the nearer to that the faster.
  const auto resources = [](const Config& config) {
    return config.value("TILE") * config.value("M") * config.value("WARPS");
  };
  const SearchSpacePtr space = KernelSpace();
  int64_t rejected = 0;
  for (int64_t rank = 0; rank < space->points()->size(); ++rank) {
    rejected += resources(space->ConfigAt(space->points()->At(rank))) > 4096 ? 1 : 0;
  }
  ASSERT_GT(rejected * 2, space->points()->size());
  // Of each seed's last hundred proposals; at random it would be more than 60.
  int late_rejections = 0;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    auto strategy = MakeModelGuided(space, {}, seed);
    int evaluations = 0;
    Search(
        *strategy,
        [&](const Config& config) {
          const int64_t used = resources(config);
          const bool late = ++evaluations > 100;
          if (used <= 4096) return Timed(config, 1e6 / static_cast<double>(used));
          late_rejections += late ? 1 : 0;
          return Rejected(config, RejectionKind::kResources);
        },
        200);
  }
  EXPECT_LT(late_rejections, 3 * 50);
}

TEST(LocalSearchTest, ClimbsToTheNearestSummit) {
  auto strategy = MakeLocal(KernelSpace(), {*Config::Parse("TILE=64 WARPS=4 M=2 N=16 A=1 B=1")}, 1);
  const std::vector<Config> proposed = Search(
      *strategy, [](const Config& config) { return Timed(config, KernelTimeNs(config)); }, 60);
  EXPECT_THAT(Texts(proposed), Contains("TILE=48 WARPS=4 M=2 N=16 A=1 B=1"));
}

}  // namespace
}  // namespace hone
