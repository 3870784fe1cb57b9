#include "runtime/tune/search_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/testing/simple_template.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

ConfigSpace Space(const SimpleTemplateOptions& options) {
  const KernelTemplatePtr made = SimpleTemplate(options);
  return *ConfigSpace::Create(made, *Problem::Create(*made, {{"n", int64_t{4096}}}), "sm_90a", {});
}

std::vector<std::string> Drain(SearchStrategy& strategy) {
  std::vector<std::string> configs;
  while (auto config = strategy.Next()) configs.push_back(config->ToString());
  return configs;
}

SimpleTemplateOptions Small() { return {.xblock = {64, 128}, .vec = {1, 4}}; }

TEST(SearchStrategyTest, ExhaustiveGoesInDeclarationOrderAfterTheSeeds) {
  const ConfigSpace space = Space(Small());
  auto strategy = MakeExhaustive(space, {*Config::Parse("XBLOCK=128 VEC=1")});
  EXPECT_THAT(Drain(*strategy), ElementsAre("XBLOCK=128 VEC=1", "XBLOCK=64 VEC=1",
                                            "XBLOCK=64 VEC=4", "XBLOCK=128 VEC=4"));
}

TEST(SearchStrategyTest, RandomCoversTheSpaceOnceAndDependsOnTheSeedOnly) {
  const ConfigSpace space = Space({});
  const auto first = Drain(*MakeRandom(space, {}, 1));
  EXPECT_EQ(first, Drain(*MakeRandom(space, {}, 1)));
  EXPECT_NE(first, Drain(*MakeRandom(space, {}, 2)));
  EXPECT_THAT(std::set<std::string>(first.begin(), first.end()), SizeIs(6));
  EXPECT_THAT(first, SizeIs(6));
}

TEST(SearchStrategyTest, RandomSamplesSpacesTooLargeToEnumerate) {
  SimpleTemplateOptions options;
  options.xblock.clear();
  options.vec.clear();
  for (int64_t i = 1; i <= 2048; ++i) options.xblock.push_back(i);
  for (int64_t i = 1; i <= 1024; ++i) options.vec.push_back(i);
  options.constraints = {"XBLOCK % 32 == 0"};
  const ConfigSpace space = Space(options);
  auto strategy = MakeRandom(space, {}, 7);
  std::set<std::string> seen;
  for (int i = 0; i < 500; ++i) {
    const auto config = strategy->Next();
    ASSERT_TRUE(config.has_value());
    EXPECT_EQ(config->value("XBLOCK") % 32, 0);
    EXPECT_TRUE(seen.insert(config->ToString()).second) << "proposed twice";
  }
}

TEST(SearchStrategyTest, EmptyNameChoosesByBudget) {
  const ConfigSpace space = Space({});
  EXPECT_THAT(Drain(**MakeStrategy("", space, {}, 6, 1)).front(), "XBLOCK=64 VEC=1");
  EXPECT_THAT(Drain(**MakeStrategy("", space, {}, 3, 1)), SizeIs(6));
}

TEST(SearchStrategyTest, UnknownNameIsRefusedWithTheKnownOnes) {
  EXPECT_THAT(MakeStrategy("annealing", Space({}), {}, 0, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("'annealing' is unknown; use exhaustive or random")));
}

}  // namespace
}  // namespace hone
