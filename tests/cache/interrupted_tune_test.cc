// Tunes that do not run to their end, tunes of a few configs, and what is told of all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/cache/decisions_fixture.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using Kind = TuneReport::Kind;

class InterruptedTuneTest : public DecisionsTest {
 protected:
  InterruptedTuneTest() {
    options_.on_tune = [this](const TuneReport& report) { Note(report); };
    Start({FakeDeviceInfo()});
    profiler().SetTiming("XBLOCK=64 VEC=1", {2000});
    profiler().SetTiming("XBLOCK=64 VEC=4", {1800});
    profiler().SetTiming("XBLOCK=128 VEC=1", {1500});
    profiler().SetTiming("XBLOCK=128 VEC=4", {1300});
    profiler().SetTiming("XBLOCK=256 VEC=1", {1150});
    profiler().SetTiming("XBLOCK=256 VEC=4", {1000});
  }
  // The cache reports to this object until it ends.
  ~InterruptedTuneTest() override { cache_.reset(); }

  void Note(const TuneReport& report) {
    MutexLock lock(&mutex_);
    reports_.emplace_back(report.kind, report.why);
    const bool ended = report.kind == Kind::kFinished || report.kind == Kind::kStopped ||
                       report.kind == Kind::kFailed;
    ends_ += ended ? 1 : 0;
  }
  std::vector<std::pair<Kind, std::string>> Reports() {
    MutexLock lock(&mutex_);
    return reports_;
  }
  void AwaitEnds(int ends) {
    MutexLock lock(&mutex_);
    const auto ended = [this, ends]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ends_ >= ends; };
    mutex_.Await(absl::Condition(&ended));
  }
  int ends() {
    MutexLock lock(&mutex_);
    return ends_;
  }

  // A tune whose only caller leaves while its `check`-th candidate is checked.
  void Interrupt(int check, const TuneOptions& options = {}) {
    const int before = ends();
    Notification checking, left;
    std::atomic<int> checked{0};
    profiler().OnCheck([&](const ProfileCandidate&) {
      if (++checked != check) return;
      checking.Notify();
      left.WaitForNotification();
    });
    bool joined = false;
    auto run = cache_->Tune(template_, {{"n", kN}}, {}, options, &joined);
    ASSERT_THAT(run, IsOk());
    key_ = (*run)->key();
    const int64_t id = (*run)->Subscribe([](const TuneRun::Event&) {});
    checking.WaitForNotification();
    (*run)->Unsubscribe(id);
    left.Notify();
    AwaitEnds(before + 1);
    profiler().OnCheck(nullptr);
  }
  // Of what is stored; the scripted times are far enough apart.
  std::string FastestStored() {
    std::string fastest;
    double fastest_ns = 0;
    const auto measurements = *store_->GetMeasurements(key_);
    for (const Measurement& m : measurements) {
      if (m.rejection || (fastest_ns > 0 && m.median_ns > fastest_ns)) continue;
      fastest = m.config.ToString();
      fastest_ns = m.median_ns;
    }
    return fastest;
  }

  Mutex mutex_;
  std::vector<std::pair<Kind, std::string>> reports_ ABSL_GUARDED_BY(mutex_);
  int ends_ ABSL_GUARDED_BY(mutex_) = 0;
};

// scenario P41
TEST_F(InterruptedTuneTest, WhatItMeasuredIsServedFromThenOn) {
  EXPECT_EQ(Get(kN).source, AnswerSource::kDefault);
  EXPECT_THAT(cache_->ListMisses({}), IsOkAndHolds(SizeIs(1)));
  Interrupt(3);
  EXPECT_EQ(store_->GetWinner(key_, "", Numerics::kWithinTolerance)->has_value(), false);
  const KernelAnswer answer = Get(kN);
  EXPECT_EQ(answer.source, AnswerSource::kTuned) << "not the default that is in memory";
  EXPECT_EQ(ConfigOf(answer), FastestStored());
  EXPECT_THAT(cache_->ListMisses({}), IsOkAndHolds(IsEmpty()));
  EXPECT_EQ(Get(4096).source, AnswerSource::kNearest);
  EXPECT_EQ(Get(4096).answered_by_key, key_);

  Start({FakeDeviceInfo()});
  EXPECT_EQ(ConfigOf(Get(kN)), FastestStored()) << "after a restart too";
}

TEST_F(InterruptedTuneTest, AWinnerThatItRejectedIsNotServedAnyMore) {
  ASSERT_THAT(Tune(kN).status, IsOk());
  EXPECT_EQ(ConfigOf(Get(kN)), "XBLOCK=256 VEC=4");
  profiler().RejectOnCheck("XBLOCK=256 VEC=4", {.kind = RejectionKind::kWrongResult});
  Interrupt(1, {.force = true, .only = {Parse("XBLOCK=256 VEC=4")}});
  EXPECT_EQ((*store_->GetWinner(key_, "", Numerics::kWithinTolerance))->variants[0].config,
            Parse("XBLOCK=256 VEC=4"))
      << "nothing was decided anew";
  EXPECT_EQ(ConfigOf(Get(kN)), "XBLOCK=256 VEC=1");
}

TEST_F(InterruptedTuneTest, ADecidedWinnerStandsAgainstWhatWasMeasuredSince) {
  Tune(kN, {.only = {Parse("XBLOCK=64 VEC=4")}});
  Interrupt(2);
  EXPECT_EQ(ConfigOf(Get(kN)), "XBLOCK=64 VEC=4") << "it has not met them in a race";
}

TEST_F(InterruptedTuneTest, EveryRunThatBeginsIsToldToEndOnce) {
  profiler().RejectOnCheck("XBLOCK=64 VEC=4", {.kind = RejectionKind::kTimeout});
  Tune(kN);
  EXPECT_THAT(Reports(), ElementsAre(Pair(Kind::kStarted, ""), Pair(Kind::kRejected, ""),
                                     Pair(Kind::kFinished, "")));
  const size_t before = Reports().size();
  Interrupt(2, {.force = true, .only = {Parse("XBLOCK=64 VEC=1"), Parse("XBLOCK=128 VEC=1")}});
  profiler().FailBegin(absl::UnavailableError("the lane is gone"));
  EXPECT_FALSE(Tune(kN / 2).status.ok());
  std::vector<std::pair<Kind, std::string>> reports = Reports();
  reports.erase(reports.begin(), reports.begin() + static_cast<ptrdiff_t>(before));
  EXPECT_THAT(reports, ElementsAre(Pair(Kind::kStarted, ""), Pair(Kind::kStopped, "cancelled"),
                                   Pair(Kind::kStarted, ""),
                                   Pair(Kind::kFailed, HasSubstr("the lane is gone"))));
}

// ---- Tunes of a few configs.

TEST_F(InterruptedTuneTest, ATuneOfAFewConfigsForTheDefaultsBitsMeasuresTheDefaultToo) {
  profiler().SetOutputHash("XBLOCK=256 VEC=4", "other bits");
  TuneOptions options;
  options.only = {Parse("XBLOCK=256 VEC=4"), Parse("XBLOCK=128 VEC=1")};
  options.numerics = Numerics::kSameBitsAsDefault;
  const TuneRun::Event tuned = Tune(kN, options);
  ASSERT_THAT(tuned.status, IsOk());
  EXPECT_EQ(tuned.outcome.measured, 3);
  ASSERT_NE(tuned.same_bits, nullptr);
  EXPECT_EQ(tuned.same_bits->winner.config.ToString(), "XBLOCK=128 VEC=1");
  const int checks = profiler().checks_of("XBLOCK=64 VEC=1");
  options.only = {Parse("XBLOCK=128 VEC=4")};
  EXPECT_EQ(Tune(kN, options).same_bits->winner.config.ToString(), "XBLOCK=128 VEC=4");
  EXPECT_EQ(profiler().checks_of("XBLOCK=64 VEC=1"), checks) << "its bits are known";
}

TEST_F(InterruptedTuneTest, WhoDoesNotAskForTheDefaultsBitsGetsOnlyTheConfigsNamed) {
  TuneOptions options;
  options.only = {Parse("XBLOCK=128 VEC=1")};
  EXPECT_EQ(Tune(kN, options).outcome.measured, 1);
}

TEST_F(InterruptedTuneTest, ATuneForBitsThatAreKnownToBeUnknowableCompilesNothing) {
  profiler().SetIrreproducible("XBLOCK=64 VEC=1");
  Tune(kN, {.only = {Parse("XBLOCK=64 VEC=1")}});
  const int64_t compiles = compiler_.calls();
  TuneOptions options;
  options.only = {Parse("XBLOCK=128 VEC=1")};
  options.numerics = Numerics::kSameBitsAsDefault;
  EXPECT_THAT(Tune(kN, options).status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("numerics"), HasSubstr("XBLOCK=64 VEC=1"),
                             HasSubstr("gave different bits"))));
  EXPECT_EQ(compiler_.calls(), compiles);
  EXPECT_EQ(profiler().checks_of("XBLOCK=128 VEC=1"), 0);
}

TEST_F(InterruptedTuneTest, WithoutAValidDefaultATuneForItsBitsIsRefused) {
  template_ = SimpleTemplate({.constraints = {"XBLOCK > 64"}});
  TuneOptions options;
  options.numerics = Numerics::kSameBitsAsDefault;
  bool joined = false;
  EXPECT_THAT(cache_->Tune(template_, {{"n", kN}}, {}, options, &joined),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("numerics"), HasSubstr("XBLOCK > 64"))));
  EXPECT_EQ(compiler_.calls(), 0);
}

TEST_F(InterruptedTuneTest, ConfigsAreTheSameInWhateverOrderTheyAreGiven) {
  const TuneRun::Event tuned = Tune(kN, {.only = {Parse("VEC=4 XBLOCK=256")}});
  ASSERT_THAT(tuned.status, IsOk());
  EXPECT_EQ(tuned.winner->config.ToString(), "XBLOCK=256 VEC=4");
  const TuneOptions twice = {.only = {Parse("VEC=4 XBLOCK=256"), Parse("XBLOCK=256 VEC=4")}};
  bool joined = false;
  EXPECT_THAT(cache_->Tune(template_, {{"n", kN}}, {}, twice, &joined),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("configs[1]"), HasSubstr("given twice"))));
}

TEST_F(InterruptedTuneTest, ATuneSaysWhatTheBestIsThatIsKnown) {
  const auto best_known_ns = [&](const TuneOptions& options) {
    bool joined = false;
    auto run = cache_->Tune(template_, {{"n", kN}}, {}, options, &joined);
    EXPECT_THAT(run, IsOk());
    double best_ns = -1;
    Notification done;
    (*run)->Subscribe([&](const TuneRun::Event& event) {
      if (event.kind == TuneRun::Event::Kind::kStarted) best_ns = event.best_known_ns;
      if (event.kind == TuneRun::Event::Kind::kFinished) done.Notify();
    });
    done.WaitForNotification();
    return best_ns;
  };
  EXPECT_EQ(best_known_ns({.only = {Parse("XBLOCK=128 VEC=1")}}), 0);
  EXPECT_EQ(best_known_ns({}), 1500);
  EXPECT_EQ(best_known_ns({}), 1000);
  EXPECT_EQ(best_known_ns({.force = true}), 0) << "nothing of it counts";
}

}  // namespace
}  // namespace hone
