#include "client/cli/tune_board.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

v1::TuneEvent TimedEvent(const std::string& config, double median_ns) {
  v1::TuneEvent event;
  event.mutable_candidate()->set_config(config);
  event.mutable_candidate()->set_median_ns(median_ns);
  event.mutable_candidate()->set_gb_per_s(1e6 / median_ns);
  return event;
}

v1::TuneEvent Rejected(const std::string& config, const std::string& kind,
                       const std::string& detail) {
  v1::TuneEvent event;
  event.mutable_candidate()->set_config(config);
  event.mutable_candidate()->mutable_rejection()->set_kind(kind);
  event.mutable_candidate()->mutable_rejection()->set_detail(detail);
  return event;
}

v1::TuneEvent Started() {
  v1::TuneEvent event;
  event.mutable_started()->set_key("0123abcd");
  event.mutable_started()->set_work_bytes(1000);
  return event;
}

TEST(TuneBoardTest, FastestFirstThenRejected) {
  TuneBoard board;
  board.Add(Started());
  board.Add(TimedEvent("A=1", 2000));
  board.Add(Rejected("A=2", "wrong_result", "max error 0.5\nmore"));
  board.Add(TimedEvent("A=3", 1000));
  const std::vector<std::string> lines = board.Lines(0);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("median"), HasSubstr("GB/s")));
  EXPECT_THAT(lines[1], AllOf(StartsWith("A=3"), HasSubstr("1.00 us"), HasSubstr("100.0%")));
  EXPECT_THAT(lines[2], AllOf(StartsWith("A=1"), HasSubstr("50.0%")));
  EXPECT_THAT(lines[3], AllOf(StartsWith("A=2"), HasSubstr("wrong_result: max error 0.5"),
                              Not(HasSubstr("more"))));
}

TEST(TuneBoardTest, LaterRoundsMoveAMedianWithoutANewRow) {
  TuneBoard board;
  board.Add(TimedEvent("A=1", 2000));
  EXPECT_FALSE(board.IsNew(TimedEvent("A=1", 1).candidate()));
  EXPECT_TRUE(board.IsNew(TimedEvent("A=2", 1).candidate()));
  board.Add(TimedEvent("A=1", 1500));
  const std::vector<std::string> lines = board.Lines(0);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[1], HasSubstr("1.50 us"));
}

TEST(TuneBoardTest, TheBestSoFarMayBeKnownFromBefore) {
  TuneBoard board;
  v1::TuneEvent started = Started();
  started.mutable_started()->set_best_known_ns(1000);
  board.Add(started);
  EXPECT_EQ(board.BestNs(), 1000);
  EXPECT_FALSE(board.HasTimed());
  board.Add(TimedEvent("A=1", 2000));
  EXPECT_THAT(board.CandidateLine(TimedEvent("A=1", 2000).candidate()),
              HasSubstr("50.0% of best so far"));
  EXPECT_THAT(board.Lines(0)[1], HasSubstr("50.0%"));
  board.Add(TimedEvent("A=2", 500));
  EXPECT_EQ(board.BestNs(), 500);
}

TEST(TuneBoardTest, AShortScreenShowsTheBestAndCountsTheRest) {
  TuneBoard board;
  for (int i = 1; i <= 9; ++i) board.Add(TimedEvent("A=" + std::to_string(i), 1000.0 * i));
  board.Add(Rejected("B=1", "compile", "no"));
  const std::vector<std::string> lines = board.Lines(3);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[1], StartsWith("A=1"));
  EXPECT_THAT(lines[3], StartsWith("A=3"));
  EXPECT_EQ(lines[4], "(7 more)");
}

TEST(TuneBoardTest, ProgressTellsHowFar) {
  TuneBoard board;
  v1::TuneEvent progress;
  progress.mutable_progress()->set_done(23);
  progress.mutable_progress()->set_total(46);
  progress.mutable_progress()->set_phase("timing");
  board.Add(progress);
  board.Add(Rejected("B=1", "compile", "no"));
  board.Add(TimedEvent("A=1", 11200));
  EXPECT_EQ(board.ProgressLine(10, false), "[#####.....] 23/46 timing  1 rejected  best 11.20 us");
}

TEST(TuneBoardTest, RejectionsWithLimitsShowThem) {
  TuneBoard board;
  v1::TuneEvent event = Rejected("A=1", "resources", "shared memory");
  event.mutable_candidate()->mutable_rejection()->set_needed(233472);
  event.mutable_candidate()->mutable_rejection()->set_limit(232448);
  board.Add(event);
  EXPECT_EQ(board.CandidateLine(event.candidate()),
            "A=1  rejected  resources: shared memory (needs 233472, limit 232448)");
}

TEST(TuneBoardTest, ExcludedPointsAreCountedByConstraint) {
  TuneBoard board;
  board.Add(TimedEvent("A=1", 1000));
  board.Add(Rejected("A=8", "constraint", "constraint \"A <= 4\" does not hold (A=8)"));
  board.Add(Rejected("A=16", "constraint", "constraint \"A <= 4\" does not hold (A=16)"));
  const std::vector<std::string> lines = board.Lines(0);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[2], "2 points excluded by constraint \"A <= 4\"");
}

// scenario P31
TEST(TuneBoardTest, ASpreadBeyondTheDistanceToTheRunnerUpIsCalledNoisy) {
  TuneBoard board;
  board.Add(Started());
  v1::TuneFinished finished;
  *finished.mutable_winner() = TimedEvent("A=3", 1000).candidate();
  *finished.mutable_runner_up() = TimedEvent("A=1", 1100).candidate();
  finished.mutable_runner_up()->set_spread(0.2);
  EXPECT_THAT(Summary(board, finished),
              HasSubstr("noisy: single samples spread by 20.0%, the runner-up is 10.0% away\n"));
  finished.mutable_winner()->set_paired_ratio(1);
  finished.mutable_runner_up()->set_paired_ratio(1.02);
  EXPECT_THAT(Summary(board, finished), HasSubstr("the runner-up is 2.0% away in pairs"));
}

TEST(TuneBoardTest, TheSummarySaysWhatWasFoundAndHow) {
  TuneBoard board;
  board.Add(Started());
  v1::TuneFinished finished;
  *finished.mutable_winner() = TimedEvent("A=3", 1000).candidate();
  finished.mutable_winner()->set_verified(true);
  finished.mutable_winner()->add_verified_sizes("n=64");
  *finished.mutable_runner_up() = TimedEvent("A=1", 1100).candidate();
  finished.set_measured(8);
  finished.set_rejected(1);
  const std::string text = Summary(board, finished);
  EXPECT_THAT(text, HasSubstr("winner  A=3  1.00 us"));
  EXPECT_THAT(text, HasSubstr("(runner-up +10.0%)"));
  EXPECT_THAT(text, HasSubstr("verified at n=64"));
  EXPECT_THAT(text, HasSubstr("8 measured, 1 rejected"));
  EXPECT_THAT(text, HasSubstr("key  0123abcd"));
  EXPECT_THAT(text, Not(HasSubstr("noisy")));
  finished.set_unverified(true);
  EXPECT_THAT(Summary(board, finished), HasSubstr("unverified"));
}

}  // namespace
}  // namespace hone::cli
