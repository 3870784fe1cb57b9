#include "runtime/tune/analytic_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_profiler.h"
#include "tests/testing/simple_template.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::Contains;
using testing::SizeIs;

class AnalyticRankTest : public testing::Test {
 protected:
  // 8192 elements: between 8 and 128 blocks for 132 multiprocessors, so that more is better.
  AnalyticRankTest()
      : problem_(*Problem::Create(*template_, {{"n", int64_t{8192}}})),
        builder_(&compiler_, template_, problem_, device_.architecture, device_.Facts(), {}) {
    const auto space =
        ConfigSpace::Create(template_, problem_, device_.architecture, device_.Facts());
    for (int64_t i = 0; i < space->product_size(); ++i) configs_.push_back(space->At(i));
  }
  absl::StatusOr<Ranking> Rank(double share, const std::vector<Config>& always = {}) {
    return RankConfigs(builder_, problem_, device_, configs_, always, share, /*seed=*/1);
  }

  const DeviceInfo device_ = FakeDeviceInfo();
  const KernelTemplatePtr template_ = SimpleTemplate({.xblock = {64, 128, 256}, .vec = {1, 4}});
  const Problem problem_;
  FakeCompiler compiler_;
  const CandidateBuilder builder_;
  std::vector<Config> configs_;  // XBLOCK=64 VEC=1, XBLOCK=64 VEC=4, ...
};

TEST_F(AnalyticRankTest, WorkThatLeavesMostMultiprocessorsIdleRanksLast) {
  const auto best = Rank(0.1);
  ASSERT_THAT(best, IsOk());
  ASSERT_THAT(best->kept, SizeIs(1));
  EXPECT_EQ(best->kept[0].ToString(), "XBLOCK=64 VEC=1");
  const auto most = Rank(0.8);
  ASSERT_THAT(most, IsOk());
  for (const Config& config : most->kept) EXPECT_NE(config.ToString(), "XBLOCK=256 VEC=4");
}

TEST_F(AnalyticRankTest, KeepsDeclarationOrderAndSomeControls) {
  const auto ranking = Rank(0.5);
  ASSERT_THAT(ranking, IsOk());
  EXPECT_THAT(ranking->kept, SizeIs(3));
  EXPECT_TRUE(std::is_sorted(ranking->kept.begin(), ranking->kept.end(),
                             [&](const Config& a, const Config& b) {
                               return std::find(configs_.begin(), configs_.end(), a) <
                                      std::find(configs_.begin(), configs_.end(), b);
                             }));
  EXPECT_THAT(ranking->controls, SizeIs(2));
  EXPECT_EQ(ranking->left_out, 1);
}

TEST_F(AnalyticRankTest, WhatMustBeTriedIsKeptWhateverItsEstimate) {
  const auto ranking = Rank(0.1, {configs_.back()});
  ASSERT_THAT(ranking, IsOk());
  EXPECT_THAT(ranking->kept, Contains(configs_.back()));
}

}  // namespace
}  // namespace hone
