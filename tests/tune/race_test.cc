#include "runtime/tune/race.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "tests/testing/fake_profiler.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

bool NeverStop(int) { return true; }

class RaceTest : public testing::Test {
 protected:
  RaceTest() {
    EXPECT_THAT(profiler_.Begin({}), IsOk());
    profiler_.OnSample([this](const Config& config) {
      const double slower = load_ ? load_(calls_) : 1;
      ++calls_;
      profiler_.SetTiming(config.ToString(), {slower * times_ns_.at(config.ToString())});
    });
  }

  Racer& Add(const std::string& config, double ns) {
    times_ns_[config] = ns;
    ProfileCandidate candidate;
    candidate.id = static_cast<int64_t>(racers_.size()) + 1;
    candidate.config = *Config::Parse(config);
    EXPECT_THAT(profiler_.Check(candidate), IsOk());
    Measurement& measurement = measurements_.emplace_back();
    measurement.config = candidate.config;
    measurement.samples_ns = {ns, ns, ns};
    Summarise(measurement);
    racers_.push_back({.id = candidate.id, .measurement = &measurement, .always = false});
    return racers_.back();
  }
  void Race() {
    const auto left = RunRace(profiler_, racers_, NeverStop);
    ASSERT_THAT(left, IsOk());
    racers_ = *left;
  }

  FakeProfiler profiler_;
  std::map<std::string, double> times_ns_;
  std::function<double(int call)> load_;  // a factor on all times, by calls of Sample so far
  int calls_ = 0;
  std::deque<Measurement> measurements_;
  std::vector<Racer> racers_;
};

TEST_F(RaceTest, AQuietRaceTakesEveryRoundOnce) {
  Add("A=1", 1000);
  Add("A=2", 1010);
  Race();
  EXPECT_EQ(calls_, kRounds * 3) << "two racers, and the fastest once more";
  for (const Measurement& measurement : measurements_) {
    EXPECT_THAT(measurement.samples_ns, SizeIs(3 + kRounds * kRoundSamples));
    EXPECT_EQ(measurement.unstable, "");
  }
}

// scenario P31
TEST_F(RaceTest, ARoundUnderAPassingLoadIsSampledAgainAndForgotten) {
  Add("A=1", 1000);
  Add("A=2", 1010);
  load_ = [](int call) { return call >= 7 && call < 10 ? 1.4 : 1.0; };
  Race();
  EXPECT_GT(calls_, kRounds * 3);
  EXPECT_THAT(measurements_[0].samples_ns, Each(1000));
  EXPECT_THAT(measurements_[1].samples_ns, Each(1010));
  EXPECT_EQ(measurements_[0].unstable, "");
}

// scenario P31
TEST_F(RaceTest, ALoadThatStaysEndsTheRaceAndSaysSo) {
  Add("A=1", 1000);
  Add("A=2", 1010);
  load_ = [](int call) { return 1 + 0.1 * (call % 5); };
  Race();
  EXPECT_LE(calls_, (kRounds + kRepeatedRoundsMax) * 3);
  EXPECT_THAT(measurements_[0].samples_ns, SizeIs(3 + kRounds * kRoundSamples));
  EXPECT_THAT(measurements_[0].unstable, HasSubstr("than in other rounds"));
}

TEST_F(RaceTest, ADeviceThatSlowsItselfDownIsNamed) {
  Add("A=1", 1000);
  profiler_.SetSlowedDown("thermal");
  Race();
  EXPECT_EQ(calls_, kRounds + kRepeatedRoundsMax);
  EXPECT_THAT(measurements_[0].unstable, HasSubstr("thermal"));
}

TEST_F(RaceTest, FinalistsAreThoseCloseToTheFastestAndTheDefaultWithinReach) {
  Add("A=1", 1000);
  Add("A=2", 1029);
  Add("A=3", 1040);
  Add("A=4", 1090).always = true;
  const std::vector<Racer> finalists = Finalists(racers_);
  ASSERT_THAT(finalists, SizeIs(3));
  EXPECT_EQ(finalists[0].measurement->config.ToString(), "A=1");
  EXPECT_EQ(finalists[1].measurement->config.ToString(), "A=2");
  EXPECT_EQ(finalists[2].measurement->config.ToString(), "A=4");
}

TEST_F(RaceTest, PairsResolveLittleUnderAMuchLargerDrift) {
  Add("A=1", 1000);
  Add("A=2", 1008);
  load_ = [](int call) { return 1 + 0.3 * (call / 2 % 4); };  // the same for both of a round
  ASSERT_THAT(RunFinal(profiler_, racers_), IsOk());
  EXPECT_THAT(measurements_[0].paired_ratio, DoubleNear(1, 1e-9));
  EXPECT_THAT(measurements_[1].paired_ratio, DoubleNear(1.008, 1e-9));
}

TEST_F(RaceTest, AFinalGoesOnUntilTheRatiosAreKnown) {
  Add("A=1", 1000);
  Add("A=2", 1008);
  ASSERT_THAT(RunFinal(profiler_, racers_), IsOk());
  EXPECT_EQ(calls_, 2 * kFinalRoundsMin);
  // The second is 2 % slower and faster by turns; it comes first in every other round.
  calls_ = 0;
  load_ = [](int call) { return call % 4 == 1 ? 1.02 : call % 4 == 2 ? 0.98 : 1; };
  ASSERT_THAT(RunFinal(profiler_, racers_), IsOk());
  EXPECT_EQ(calls_, 2 * kFinalRoundsMax);
}

TEST_F(RaceTest, ALaterFinalKeepsToTheScaleOfTheEarlierOne) {
  Add("A=1", 1000);
  Add("A=2", 980);
  measurements_[0].paired_ratio = 1.01;  // of a final whose fastest is not here
  std::swap(racers_[0], racers_[1]);
  ASSERT_THAT(RunFinal(profiler_, racers_), IsOk());
  EXPECT_THAT(measurements_[0].paired_ratio, DoubleNear(1.01, 1e-9));
  EXPECT_THAT(measurements_[1].paired_ratio, DoubleNear(1.01 * 0.98, 1e-9));
}

TEST_F(RaceTest, AFinalistThatFailsIsRejectedAndTheOthersGoOn) {
  Add("A=1", 1000);
  Add("A=2", 1005);
  Add("A=3", 1006);
  profiler_.RejectOnSample("A=2", {.kind = RejectionKind::kTimeout, .detail = "hung"});
  ASSERT_THAT(RunFinal(profiler_, racers_), IsOk());
  EXPECT_TRUE(measurements_[1].rejection);
  EXPECT_THAT(measurements_[1].samples_ns, IsEmpty());
  EXPECT_THAT(measurements_[2].paired_ratio, DoubleNear(1.006, 1e-9));
}

TEST_F(RaceTest, OneFinalistNeedsNoFinal) {
  Add("A=1", 1000);
  ASSERT_THAT(RunFinal(profiler_, racers_), IsOk());
  EXPECT_EQ(calls_, 0);
  EXPECT_EQ(measurements_[0].paired_ratio, 0);
}

}  // namespace
}  // namespace hone
