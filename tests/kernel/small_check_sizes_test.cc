#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime/kernel/instantiate.h"
#include "tests/kernel/specs.h"

namespace hone {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::vector<SizeBindings> SizesOf(const KernelTemplatePtr& made, const std::string& problem_text,
                                  const std::string& config, const DeviceFacts& facts = {}) {
  const Problem problem = ProblemOf(*made, problem_text);
  const auto recipe = RecipeOf(*made, problem, ConfigOf(config));
  EXPECT_THAT(recipe, IsOk());
  return SmallCheckSizes(*made, problem, *recipe, facts);
}

std::vector<int64_t> Column(const std::vector<SizeBindings>& sizes, const std::string& name) {
  std::vector<int64_t> column;
  for (const SizeBindings& one : sizes) column.push_back(one.at(name));
  return column;
}

TEST(SmallCheckSizesTest, MinimumAndAroundOneBlockAndAnOddMultiple) {
  EXPECT_THAT(Column(SizesOf(SimpleTemplate(), "n=1048576", "XBLOCK=128 VEC=4"), "n"),
              ElementsAre(0, 1, 511, 513, 1536));
}

TEST(SmallCheckSizesTest, ASizeWithoutATailIsNotEnough) {
  // The tuned size is a whole number of blocks: only the small sizes show a skipped tail.
  const auto sizes = Column(SizesOf(SimpleTemplate(), "n=1048576", "XBLOCK=256 VEC=1"), "n");
  EXPECT_TRUE(
      std::any_of(sizes.begin(), sizes.end(), [](int64_t n) { return n > 256 && n % 256 != 0; }));
}

TEST(SmallCheckSizesTest, TheTunedSizeIsNotCheckedTwice) {
  EXPECT_THAT(Column(SizesOf(SimpleTemplate(), "n=511", "XBLOCK=128 VEC=4"), "n"),
              ElementsAre(0, 1, 513, 1536));
}

TEST(SmallCheckSizesTest, GuardsMoveSizesToTheNearestAllowed) {
  const auto made = SimpleTemplate({.constraints = {"n % VEC == 0"}});
  EXPECT_THAT(Column(SizesOf(made, "n=4096", "XBLOCK=128 VEC=4"), "n"),
              ElementsAre(0, 4, 508, 516, 1536));
}

TEST(SmallCheckSizesTest, TheDeclaredDomainIsKept) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    spec.params[1].min = 100;
    spec.params[1].max = 1000;
    spec.params[1].multiple_of = 10;
  }));
  const auto sizes = Column(SizesOf(made, "n=500", "XBLOCK=64 VEC=4"), "n");
  EXPECT_THAT(sizes, ElementsAre(100, 250, 240, 260, 750));
  for (const int64_t n : sizes) EXPECT_EQ(n % 10, 0);
}

TEST(SmallCheckSizesTest, SizesBeyondTheDomainAreLeftOut) {
  const auto made = Made(Changed([](TemplateSpec& spec) { spec.params[1].max = 300; }));
  EXPECT_THAT(Column(SizesOf(made, "n=300", "XBLOCK=256 VEC=1"), "n"), ElementsAre(0, 1, 255, 257));
}

// rows x cols with one block for BLOCK_ROWS x BLOCK_COLS.
KernelTemplatePtr Tiled() {
  return Made(Changed([](TemplateSpec& spec) {
    Parameter rows = spec.params[1];
    rows.name = "rows";
    rows.min = 1;
    spec.params[1].min = 1;
    spec.params.push_back(rows);
    for (size_t i = 0; i < 2; ++i) BufferOf(spec.base, i).shape = {Parsed("rows"), Parsed("n")};
    spec.base.steps[0].launch.shape.grid = {Parsed("ceil_div(n, XBLOCK)"),
                                            Parsed("ceil_div(rows, 8)"), Parsed("1")};
  }));
}

TEST(SmallCheckSizesTest, EveryDynamicSizeTakesItsTurnWithTailsInTheOthers) {
  const auto sizes = SizesOf(Tiled(), "n=4096 rows=4096", "XBLOCK=64 VEC=1");
  std::set<int64_t> ns, rows;
  for (const SizeBindings& one : sizes) {
    ns.insert(one.at("n"));
    rows.insert(one.at("rows"));
    EXPECT_LE(one.at("n") * one.at("rows"), 4096) << "check sizes are small in every dimension";
  }
  EXPECT_THAT(ns, ElementsAre(1, 63, 65, 192));
  EXPECT_THAT(rows, ElementsAre(1, 7, 9, 24));
  EXPECT_THAT(sizes, Contains((SizeBindings{{"n", 65}, {"rows", 9}})));
}

TEST(SmallCheckSizesTest, AGridThatDoesNotGrowUsesTheThreadsThatWalkTheSize) {
  // One block for a row; its threads walk the columns.
  const auto rows = Made(Changed([](TemplateSpec& spec) {
    Parameter count = spec.params[1];
    count.name = "rows";
    count.min = 1;
    spec.params.push_back(count);
    BufferOf(spec.base, 1).shape = {Parsed("rows"), Parsed("n")};
    spec.base.steps[0].launch.shape.grid[0] = Parsed("rows");
  }));
  const auto sizes = SizesOf(rows, "n=4096 rows=64", "XBLOCK=128 VEC=1");
  std::set<int64_t> ns;
  for (const SizeBindings& one : sizes) ns.insert(one.at("n"));
  for (const int64_t n : {0, 1, 127, 129, 384}) EXPECT_THAT(ns, Contains(n));
}

TEST(SmallCheckSizesTest, APersistentGridIsCheckedAroundAllItsThreads) {
  const auto persistent = Made(Changed([](TemplateSpec& spec) {
    spec.base.steps[0].launch.shape.grid[0] = Parsed("2 * device.sm_count");
  }));
  const auto sizes =
      Column(SizesOf(persistent, "n=1048576", "XBLOCK=64 VEC=1", {{"device.sm_count", 5}}), "n");
  EXPECT_THAT(sizes, UnorderedElementsAre(0, 1, 63, 65, 192, 639, 641, 1920));
}

TEST(SmallCheckSizesTest, AGridThatIsCappedCountsOneBlockBelowTheCap) {
  const auto capped = Made(Changed([](TemplateSpec& spec) {
    spec.base.steps[0].launch.shape.grid[0] =
        Parsed("min(ceil_div(n, XBLOCK * VEC), 2 * device.sm_count)");
  }));
  EXPECT_THAT(
      Column(SizesOf(capped, "n=1048576", "XBLOCK=64 VEC=4", {{"device.sm_count", 132}}), "n"),
      ElementsAre(0, 1, 255, 257, 768));
}

TEST(SmallCheckSizesTest, CheckSizesTakeNoMoreMemoryThanTheTunedProblemOrABound) {
  // Each element of n is a row of 2^26 floats: three blocks of them would need terabytes.
  const auto wide = Made(Changed([](TemplateSpec& spec) {
    BufferOf(spec.base, 0).shape = {Parsed("n"), Parsed("67108864")};
  }));
  for (const int64_t n : Column(SizesOf(wide, "n=4", "XBLOCK=128 VEC=4"), "n")) EXPECT_LE(n, 4);
}

TEST(SmallCheckSizesTest, ATemplateWithoutDynamicSizesHasNone) {
  const auto fixed = Made(Changed([](TemplateSpec& spec) { spec.params[1].dynamic = false; }));
  EXPECT_TRUE(SizesOf(fixed, "n=4096", "XBLOCK=64 VEC=1").empty());
}

}  // namespace
}  // namespace hone
