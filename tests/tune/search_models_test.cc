// The models behind the model-guided strategy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/tune/additive_process.h"
#include "runtime/tune/expected_improvement.h"
#include "runtime/tune/extra_trees.h"
#include "runtime/tune/search_features.h"
#include "tests/tune/synthetic_space.h"

namespace hone {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::SizeIs;

TEST(ExpectedImprovementTest, IsTheGapWhereThereIsNoDoubt) {
  EXPECT_EQ(ExpectedImprovement(3, 0, 5), 2);
  EXPECT_EQ(ExpectedImprovement(7, 0, 5), 0);
  // At the best itself: the mean of the positive half of a normal distribution.
  EXPECT_NEAR(ExpectedImprovement(5, 2, 5), 2 / std::sqrt(2 * M_PI), 1e-12);
  EXPECT_GT(ExpectedImprovement(6, 2, 5), ExpectedImprovement(6, 1, 5));
  EXPECT_GE(ExpectedImprovement(1e9, 1, 5), 0);
}

TEST(SearchFeaturesTest, ScalesAreOrdersThenAlignments) {
  const SearchSpacePtr space = ProductSpace(
      {{"POW2", {32, 8, 16}}, {"STEP", {48, 16, 32, 24}}, {"FLAG", {0, 1}}, {"ONE", {7}}});
  const SearchFeatures features(*space);
  ASSERT_THAT(features.scales(), SizeIs(4));
  EXPECT_THAT(features.scales()[0].level, ElementsAre(2, 0, 1));
  EXPECT_THAT(features.scales()[1].level, ElementsAre(3, 0, 2, 1));
  EXPECT_THAT(features.scales()[2].level, ElementsAre(0, 1));
  // 48 = 3 * 2^4, 24 = 3 * 2^3. Powers of two have no alignment besides their order.
  EXPECT_EQ(features.scales()[3].dimension, 1u);
  EXPECT_THAT(features.scales()[3].level, ElementsAre(4, 4, 5, 3));
  // And the one product of two factors.
  ASSERT_EQ(features.count(), 5u);
  std::vector<float> row;
  features.AppendTo({1, 2, 1, 0}, row);
  EXPECT_THAT(row, ElementsAre(0, 2, 1, 5, 8));  // log2(8 * 32)
}

TEST(SearchFeaturesTest, ZeroAndNegativeValuesAreOrderedOnly) {
  const SearchFeatures features(*ProductSpace({{"A", {0, 8, 3}}, {"B", {-1, 4, 12}}}));
  EXPECT_THAT(features.scales(), SizeIs(2));
  EXPECT_EQ(features.count(), 2u);
}

ExtraTrees::Data Rows(const std::vector<std::pair<float, float>>& inputs,
                      const std::vector<float>& targets) {
  ExtraTrees::Data data{
      .columns = 2, .rows = {}, .targets = targets, .failed = std::vector<uint8_t>(targets.size())};
  for (const auto& [a, b] : inputs) data.rows.insert(data.rows.end(), {a, b});
  return data;
}

TEST(ExtraTreesTest, RepeatsWhatItHasSeenAndDoubtsWhatLiesBetween) {
  ExtraTrees trees(64, 1);
  trees.Fit(Rows({{0, 0}, {0, 4}, {4, 0}, {4, 4}}, {1, 1, 1, 9}), 64);
  const auto predictions = trees.Predict({0, 0, 4, 4, 3, 3});
  EXPECT_NEAR(predictions[0].mean, 1, 1e-6);
  EXPECT_NEAR(predictions[0].deviation, 0, 1e-6);
  EXPECT_NEAR(predictions[1].mean, 9, 1e-6);
  EXPECT_GT(predictions[2].mean, 1);
  EXPECT_LT(predictions[2].mean, 9);
  EXPECT_GT(predictions[2].deviation, 1);
}

TEST(ExtraTreesTest, OneRowEqualRowsAndEqualTargetsAreFitted) {
  ExtraTrees trees(8, 1);
  trees.Fit(Rows({{1, 2}}, {5}), 8);
  EXPECT_EQ(trees.Predict({7, 7})[0].mean, 5);
  trees.Fit(Rows({{1, 2}, {1, 2}}, {4, 6}), 8);
  EXPECT_EQ(trees.Predict({1, 2})[0].mean, 5);
  trees.Fit(Rows({{1, 2}, {3, 4}, {5, 6}}, {7, 7, 7}), 8);
  EXPECT_EQ(trees.Predict({3, 3})[0].mean, 7);
}

TEST(ExtraTreesTest, FailuresCountForTheirShareAndNotForTheMean) {
  ExtraTrees trees(32, 1);
  ExtraTrees::Data data = Rows({{0, 0}, {1, 0}, {6, 0}, {7, 0}}, {2, 2, 100, 100});
  data.failed = {0, 0, 1, 1};
  trees.Fit(data, 32);
  const auto predictions = trees.Predict({0, 0, 7, 0, 3, 0});
  EXPECT_EQ(predictions[0].success, 1);
  EXPECT_EQ(predictions[1].success, 0);
  EXPECT_GT(predictions[2].success, 0.1);
  EXPECT_LT(predictions[2].success, 0.9);
  EXPECT_EQ(predictions[2].mean, 2);
  EXPECT_EQ(predictions[2].deviation, 0);
}

TEST(ExtraTreesTest, SomeTreesLearnNewDataAndTheRestFollow) {
  ExtraTrees trees(10, 1);
  trees.Fit(Rows({{0, 0}}, {0}), 10);
  trees.Fit(Rows({{0, 0}}, {10}), 4);
  EXPECT_NEAR(trees.Predict({0, 0})[0].mean, 4, 1e-6);
  trees.Fit(Rows({{0, 0}}, {10}), 6);
  EXPECT_NEAR(trees.Predict({0, 0})[0].mean, 10, 1e-6);
}

// Fits a process to `observed` points of `space` and gives the improvements at all points.
std::vector<double> Improvements(const SearchSpace& space, const std::vector<int64_t>& observed,
                                 const std::function<double(const Config&)>& target, int fits) {
  const SearchFeatures features(space);
  AdditiveProcess process(&features, 4, 1);
  std::vector<Point> all;
  for (int64_t rank = 0; rank < space.points()->size(); ++rank)
    all.push_back(space.points()->At(rank));
  std::vector<const Point*> points, candidates;
  std::vector<double> targets;
  double best = std::numeric_limits<double>::infinity();
  for (const int64_t rank : observed) {
    points.push_back(&all[static_cast<size_t>(rank)]);
    targets.push_back(target(space.ConfigAt(*points.back())));
    best = std::min(best, targets.back());
  }
  for (const Point& point : all) candidates.push_back(&point);
  for (int i = 0; i < fits; ++i) process.Fit(points, targets);
  return process.ExpectedImprovements(candidates, best);
}

TEST(AdditiveProcessTest, LearnsEffectsFromConfigsThatDifferElsewhere) {
  // A and B act independently. Each value of A was seen with one value of B, the best A never with
  // the best B: only a model that adds effects expects the most of the two together.
  const SearchSpacePtr space =
      ProductSpace({{"A", {1, 2, 4, 8, 16, 32}}, {"B", {1, 2, 4, 8, 16, 32}}, {"C", {0, 1}}});
  const auto target = [](const Config& config) {
    const double a = std::log2(double(config.value("A"))), b = std::log2(double(config.value("B")));
    return std::abs(a - 4) + 2 * std::abs(b - 1) + 0.01 * double(config.value("C"));
  };
  std::vector<int64_t> observed;
  for (int64_t a = 0; a < 6; ++a) observed.push_back(a * 12 + 3 * 2);  // B=8, away from its best
  for (int64_t b = 0; b < 6; ++b) observed.push_back(1 * 12 + b * 2);  // A=2, away from its best
  const std::vector<double> improvements = Improvements(*space, observed, target, 30);
  const auto most = std::max_element(improvements.begin(), improvements.end());
  const Config chosen = space->ConfigAt(space->points()->At(most - improvements.begin()));
  EXPECT_EQ(chosen.value("A"), 16) << chosen.ToString();
  EXPECT_EQ(chosen.value("B"), 2) << chosen.ToString();
}

TEST(AdditiveProcessTest, ExpectsLittleWhereItHasLooked) {
  const SearchSpacePtr space = ProductSpace({{"A", {1, 2, 4, 8, 16, 32, 64}}, {"B", {1, 2, 3, 4}}});
  const std::vector<int64_t> observed = {0, 5, 10, 15, 20};
  const auto improvements = Improvements(
      *space, observed, [](const Config& config) { return double(config.value("B")); }, 20);
  double seen = 0, unseen = 0;
  for (size_t i = 0; i < improvements.size(); ++i) {
    const bool looked = std::find(observed.begin(), observed.end(), i) != observed.end();
    (looked ? seen : unseen) = std::max(looked ? seen : unseen, improvements[i]);
  }
  EXPECT_LT(seen, unseen);
}

TEST(AdditiveProcessTest, OneObservationAndEqualTargetsAreFitted) {
  const SearchSpacePtr space = ProductSpace({{"A", {1, 2, 4}}, {"B", {0, 1}}});
  const auto constant = [](const Config&) { return 3.0; };
  EXPECT_THAT(Improvements(*space, {2}, constant, 3), Each(Ge(0)));
  EXPECT_THAT(Improvements(*space, {0, 1, 2, 3, 4, 5}, constant, 3), Each(Ge(0)));
  const SearchSpacePtr line = ProductSpace({{"A", {1, 2, 4}}});
  EXPECT_THAT(Improvements(*line, {0, 2}, constant, 3), Each(Ge(0)));
}

TEST(AdditiveProcessTest, RepeatedAndContradictoryObservationsAreNoise) {
  const SearchSpacePtr space = ProductSpace({{"A", {1, 2, 4}}, {"B", {0, 1}}});
  double value = 0;
  const auto drifting = [&](const Config&) { return value += 1; };
  const auto improvements = Improvements(*space, {1, 1, 1, 1, 4, 4, 4}, drifting, 10);
  for (const double improvement : improvements) EXPECT_TRUE(std::isfinite(improvement));
}

}  // namespace
}  // namespace hone
