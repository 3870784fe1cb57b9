#include "runtime/tune/winner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/simple_template.h"

namespace hone {
namespace {

class WinnerTest : public testing::Test {
 protected:
  WinnerTest()
      : template_(SimpleTemplate()),
        space_(*ConfigSpace::Create(template_, *Problem::Create(*template_, {{"n", int64_t{4096}}}),
                                    "sm_90a", {})) {}

  void Timed(const std::string& config, std::vector<double> samples_ns, bool verified = true) {
    Measurement measurement;
    measurement.config = *Config::Parse(config);
    measurement.samples_ns = std::move(samples_ns);
    measurement.verified = verified;
    Summarise(measurement);
    measurements_.push_back(measurement);
  }
  void Rejected(const std::string& config, RejectionKind kind) {
    Measurement measurement;
    measurement.config = *Config::Parse(config);
    measurement.rejection = Rejection{.kind = kind, .detail = "scripted"};
    measurements_.push_back(measurement);
  }
  std::string Winner() {
    const auto choice = ChooseWinner(space_, measurements_);
    return choice ? measurements_[choice->winner].config.ToString() : "none";
  }
  std::string RunnerUp() {
    const auto choice = ChooseWinner(space_, measurements_);
    return choice && choice->runner_up ? measurements_[*choice->runner_up].config.ToString()
                                       : "none";
  }

  KernelTemplatePtr template_;
  ConfigSpace space_;
  std::vector<Measurement> measurements_;
};

TEST_F(WinnerTest, FastestVerifiedCandidateWins) {
  Timed("XBLOCK=64 VEC=1", {100, 100, 100});
  Timed("XBLOCK=128 VEC=4", {50, 50, 50});
  Timed("XBLOCK=256 VEC=4", {70, 70, 70});
  EXPECT_EQ(Winner(), "XBLOCK=128 VEC=4");
  EXPECT_EQ(RunnerUp(), "XBLOCK=256 VEC=4");
}

TEST_F(WinnerTest, OnlyCandidatesWithTheDefaultsBitsWinWhenBitsAreAskedFor) {
  Timed("XBLOCK=64 VEC=1", {100, 100, 100});
  Timed("XBLOCK=128 VEC=1", {50, 50, 50});
  Timed("XBLOCK=128 VEC=4", {40, 40, 40});
  measurements_[0].output_sha256 = measurements_[1].output_sha256 = "the default's";
  measurements_[2].output_sha256 = "others";
  EXPECT_EQ(Winner(), "XBLOCK=128 VEC=4");
  const WinnerQuery same_bits{.numerics = Numerics::kSameBitsAsDefault};
  auto choice = ChooseWinner(space_, measurements_, same_bits);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->winner, 1u);
  EXPECT_EQ(choice->runner_up, 0u);
  measurements_[0].output_sha256.clear();
  EXPECT_FALSE(ChooseWinner(space_, measurements_, same_bits)) << "the default's are not known";
}

TEST_F(WinnerTest, StaleTimingsContendOnlyWhereAllAreStale) {
  Timed("XBLOCK=64 VEC=1", {100, 100, 100});
  Timed("XBLOCK=128 VEC=1", {50, 50, 50});
  Timed("XBLOCK=128 VEC=4", {70, 70, 70});
  for (Measurement& measurement : measurements_) measurement.driver = "old";
  const WinnerQuery query{.present = {.driver = "new", .compiler_build = ""}};
  EXPECT_EQ(ChooseWinner(space_, measurements_, query)->winner, 1u);
  measurements_[0].driver = measurements_[2].driver = "new";
  EXPECT_EQ(ChooseWinner(space_, measurements_, query)->winner, 2u);
  measurements_[2].invalidated = "2026-11-30";
  EXPECT_EQ(ChooseWinner(space_, measurements_, query)->winner, 0u);
}

// scenario P27
TEST_F(WinnerTest, RejectedCandidateCannotWinHoweverFast) {
  Timed("XBLOCK=64 VEC=1", {100, 100, 100});
  Rejected("XBLOCK=128 VEC=4", RejectionKind::kWrongResult);
  EXPECT_EQ(Winner(), "XBLOCK=64 VEC=1");
  EXPECT_EQ(RunnerUp(), "none");
}

TEST_F(WinnerTest, VerifiedBeatsUnverifiedWhateverItsTime) {
  Timed("XBLOCK=128 VEC=1", {100, 100, 100});
  Timed("XBLOCK=256 VEC=4", {10, 10, 10}, /*verified=*/false);
  EXPECT_EQ(Winner(), "XBLOCK=128 VEC=1");
}

// scenario P23
TEST_F(WinnerTest, TiesWithinTheMarginGoToTheFirstDeclared) {
  Timed("XBLOCK=256 VEC=4", {50.0, 50.0, 50.0});
  Timed("XBLOCK=128 VEC=4", {50.4, 50.4, 50.4});
  Timed("XBLOCK=64 VEC=1", {100, 100, 100});
  EXPECT_EQ(Winner(), "XBLOCK=128 VEC=4");
}

TEST_F(WinnerTest, FinalistsAreComparedByTheirPairs) {
  Timed("XBLOCK=64 VEC=4", {50.0, 50.0, 50.0});
  Timed("XBLOCK=128 VEC=4", {51.5, 51.5, 51.5});
  Timed("XBLOCK=256 VEC=4", {49.0, 49.0, 49.0});
  measurements_[0].paired_ratio = 1.03;
  measurements_[1].paired_ratio = 1;
  EXPECT_EQ(Winner(), "XBLOCK=128 VEC=4") << "a lucky median that was not in the final counts less";
  measurements_[0].paired_ratio = 1.005;
  EXPECT_EQ(Winner(), "XBLOCK=64 VEC=4") << "ties go to the first declared";
}

TEST_F(WinnerTest, ALaterCandidateThatLeavesTheFinalistsBehindWins) {
  Timed("XBLOCK=64 VEC=4", {50.0, 50.0, 50.0});
  Timed("XBLOCK=128 VEC=4", {50.2, 50.2, 50.2});
  measurements_[0].paired_ratio = 1;
  measurements_[1].paired_ratio = 1.004;
  Timed("XBLOCK=256 VEC=4", {40.0, 40.0, 40.0});
  EXPECT_EQ(Winner(), "XBLOCK=256 VEC=4");
}

TEST_F(WinnerTest, DefaultStaysUnlessBeatenByMoreThanNoise) {
  Timed("XBLOCK=64 VEC=1", {98, 100, 102, 104});
  Timed("XBLOCK=128 VEC=4", {98, 100, 101, 103});
  EXPECT_EQ(Winner(), "XBLOCK=64 VEC=1");
}

TEST_F(WinnerTest, NoisyDefaultCannotHideAClearWin) {
  Timed("XBLOCK=64 VEC=1", {60, 100, 140, 200});
  Timed("XBLOCK=128 VEC=4", {80, 80, 80, 80});
  EXPECT_EQ(Winner(), "XBLOCK=128 VEC=4");
}

// scenario P30
TEST_F(WinnerTest, MeasurementsOfConfigsNoLongerDeclaredDoNotCount) {
  Timed("XBLOCK=512 VEC=4", {1, 1, 1});
  Timed("XBLOCK=128 VEC=4", {50, 50, 50});
  EXPECT_EQ(Winner(), "XBLOCK=128 VEC=4");
}

TEST_F(WinnerTest, NothingMeasuredGivesNoWinner) {
  Rejected("XBLOCK=64 VEC=1", RejectionKind::kCompile);
  EXPECT_EQ(Winner(), "none");
}

}  // namespace
}  // namespace hone
