#include "runtime/kernel/valid_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "runtime/kernel/config_sampler.h"
#include "tests/kernel/specs.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct SpaceSpec {
  std::vector<Tunable> tunables;
  std::vector<std::string> constraints;
};

// The tunables of the copy template are there too, with one value.
ConfigSpace SpaceOf(const SpaceSpec& spec, const std::string& problem = "n=0") {
  TemplateSpec made = SimpleSpec({.xblock = {64}, .vec = {1}});
  made.base.tunables.insert(made.base.tunables.begin(), spec.tunables.begin(), spec.tunables.end());
  for (const std::string& constraint : spec.constraints) {
    made.base.constraints.push_back(Parsed(constraint));
  }
  const auto kernel_template = Made(std::move(made));
  auto space =
      ConfigSpace::Create(kernel_template, ProblemOf(*kernel_template, problem), "sm_90a", {});
  EXPECT_TRUE(space.ok()) << space.status();
  return *space;
}

std::vector<int64_t> UpTo(int64_t last) {
  std::vector<int64_t> values;
  for (int64_t i = 1; i <= last; ++i) values.push_back(i);
  return values;
}

// Every valid point as the walk in declaration order finds it.
std::vector<Point> Walked(const ConfigSpace& space) {
  std::vector<Point> points;
  space.ForEachValid([&](const Config& config) {
    Point point;
    for (size_t i = 0; i < space.tunables().size(); ++i) {
      const auto& values = space.tunables()[i].values;
      point.push_back(static_cast<uint16_t>(
          std::find(values.begin(), values.end(), config.values()[i].second) - values.begin()));
    }
    points.push_back(point);
    return true;
  });
  return points;
}

void ExpectEqualToWalk(const ConfigSpace& space) {
  const auto points = ValidPoints::Create(space);
  ASSERT_THAT(points, IsOk());
  const std::vector<Point> walked = Walked(space);
  ASSERT_EQ(points->size(), static_cast<int64_t>(walked.size()));
  for (size_t i = 0; i < walked.size(); ++i) {
    const auto rank = static_cast<int64_t>(i);
    EXPECT_EQ(points->At(rank), walked[i]);
    EXPECT_EQ(points->RankOf(walked[i]), rank);
  }
}

TEST(ValidPointsTest, RanksFollowTheWalkInDeclarationOrder) {
  ExpectEqualToWalk(SpaceOf(
      {.tunables = {MakeTunable("A", {8, 1, 4, 2}), MakeTunable("B", UpTo(6)),
                    MakeTunable("C", {0, 1}), MakeTunable("D", UpTo(5))},
       .constraints = {"A * B <= 16", "C == 0 || A % D == 0", "B + D > 3 && (A + B) * D < 40"}}));
}

TEST(ValidPointsTest, FailingOperationsCountAsTheyDoInValidate) {
  // Both for divisions that are skipped and for those that are not.
  ExpectEqualToWalk(SpaceOf({.tunables = {MakeTunable("A", UpTo(4)), MakeTunable("B", UpTo(4))},
                             .constraints = {"A == 1 || 12 / (A - 1) > B"}}));
  ExpectEqualToWalk(SpaceOf({.tunables = {MakeTunable("A", UpTo(4)), MakeTunable("B", UpTo(4))},
                             .constraints = {"12 / (A - 1) > B"}}));
  // Does not fold, because n is 0: evaluated as written at each point.
  ExpectEqualToWalk(SpaceOf({.tunables = {MakeTunable("A", UpTo(4)), MakeTunable("B", UpTo(4))},
                             .constraints = {"A < B || 4 / n > B"}}));
}

TEST(ValidPointsTest, PointsOutsideAreNotFound) {
  const ConfigSpace space = SpaceOf(
      {.tunables = {MakeTunable("A", {1, 2}), MakeTunable("B", {1, 2})}, .constraints = {"A < B"}});
  const auto points = ValidPoints::Create(space);
  ASSERT_THAT(points, IsOk());
  EXPECT_EQ(points->size(), 1);
  EXPECT_TRUE(points->Contains({0, 1, 0, 0}));
  EXPECT_FALSE(points->Contains({1, 1, 0, 0}));
  EXPECT_FALSE(points->Contains({0, 7, 0, 0}));
  EXPECT_FALSE(points->Contains({0, 1}));
}

TEST(ValidPointsTest, ASpaceWithoutValidPointsIsEmpty) {
  const ConfigSpace space =
      SpaceOf({.tunables = {MakeTunable("A", UpTo(100))}, .constraints = {"A > 100"}});
  const auto points = ValidPoints::Create(space);
  ASSERT_THAT(points, IsOk());
  EXPECT_EQ(points->size(), 0);
  EXPECT_FALSE(points->Contains({0, 0, 0}));
}

TEST(ValidPointsTest, CountsATrillionPointsByWhatConstraintsCanTellApart) {
  // Twelve dice of ten sides: all that the constraint sees of the first few is their sum.
  SpaceSpec spec;
  std::string sum;
  for (int i = 0; i < 12; ++i) {
    const std::string name = "D" + std::to_string(i);
    spec.tunables.push_back(MakeTunable(name, UpTo(10)));
    sum += (i == 0 ? "" : " + ") + name;
  }
  spec.constraints = {sum + " == 66"};
  std::vector<int64_t> ways(121, 0);
  ways[0] = 1;
  for (int i = 0; i < 12; ++i) {
    std::vector<int64_t> next(121, 0);
    for (size_t s = 0; s < ways.size(); ++s) {
      for (size_t v = 1; v <= 10 && s + v < next.size(); ++v) next[s + v] += ways[s];
    }
    ways = next;
  }
  const ConfigSpace space = SpaceOf(spec);
  const auto points = ValidPoints::Create(space);
  ASSERT_THAT(points, IsOk());
  EXPECT_EQ(points->size(), ways[66]);
  EXPECT_GT(points->size(), 30'000'000'000);
  EXPECT_LT(points->bytes(), 100'000u);
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int64_t> draw(0, points->size() - 1);
  for (int i = 0; i < 1000; ++i) {
    const int64_t rank = draw(random);
    const Point point = points->At(rank);
    int64_t total = 0;
    for (size_t d = 0; d < 12; ++d) total += point[d] + 1;
    EXPECT_EQ(total, 66);
    EXPECT_EQ(points->RankOf(point), rank);
  }
}

TEST(ValidPointsTest, LimitsThatDoNotSufficeAreNamed) {
  const ConfigSpace space =
      SpaceOf({.tunables = {MakeTunable("A", UpTo(100)), MakeTunable("B", UpTo(100))},
               .constraints = {"(A * 7919 + B * 104729) % 101 != 5"}});
  EXPECT_THAT(ValidPoints::Create(space, {.steps_max = 50}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("in 50 steps")));
  EXPECT_THAT(ValidPoints::Create(space, {.states_max = 50}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("50 states")));
  EXPECT_THAT(ValidPoints::Create(space), IsOk());
}

TEST(ValidPointsTest, TooManyPointsForRanksAreRefused) {
  SpaceSpec spec;
  for (int i = 0; i < 32; ++i) {
    spec.tunables.push_back(MakeTunable("T" + std::to_string(i), UpTo(4)));
  }
  EXPECT_THAT(ValidPoints::Create(SpaceOf(spec)),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("cannot be counted")));
}

TEST(ValidPointsTest, ListedPointsAreSortedAndTakenOnce) {
  const ValidPoints points = ValidPoints::Listed(2, {{3, 1}, {0, 2}, {3, 1}, {0, 0}});
  EXPECT_EQ(points.size(), 3);
  EXPECT_THAT(points.At(0), ElementsAre(0, 0));
  EXPECT_THAT(points.At(2), ElementsAre(3, 1));
  EXPECT_EQ(points.RankOf({0, 1}), -1);
  EXPECT_EQ(ValidPoints::Listed(2, {}).size(), 0);
  EXPECT_THAT(ValidPoints::Listed(0, {{}}).At(0), IsEmpty());
}

TEST(ConfigSamplerTest, CorrectsForBranchesThatHoldFewPoints) {
  // Half of all descents take A=1, which has one of the hundred points.
  const ConfigSpace space =
      SpaceOf({.tunables = {MakeTunable("A", {1, 2}), MakeTunable("B", UpTo(99))},
               .constraints = {"A == 2 || B == 1"}});
  const ConfigSampler sampler(&space);
  std::mt19937_64 random(7);
  int first = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto point = sampler.Sample(random);
    ASSERT_TRUE(point.has_value());
    first += (*point)[0] == 0 ? 1 : 0;
  }
  EXPECT_GT(first, 1);  // 10 expected
  EXPECT_LT(first, 40);
  EXPECT_NEAR(sampler.EstimateCount(20'000, random), 100, 5);
}

TEST(ConfigSamplerTest, FindsNothingWhereNothingIsValid) {
  const ConfigSpace space =
      SpaceOf({.tunables = {MakeTunable("A", UpTo(9))}, .constraints = {"A > 9"}});
  const ConfigSampler sampler(&space);
  std::mt19937_64 random(7);
  EXPECT_EQ(sampler.Sample(random), std::nullopt);
  EXPECT_EQ(sampler.EstimateCount(100, random), 0);
}

}  // namespace
}  // namespace hone
