// What stands of stored measurements: under another driver, for another device, for a neighbour.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/cache/tune_seeds.h"
#include "tests/cache/decisions_fixture.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

DeviceInfo WithDriver(const std::string& driver) {
  DeviceInfo info = FakeDeviceInfo();
  info.driver = driver;
  return info;
}

// ---- Stale timings.

class StaleTest : public DecisionsTest {
 protected:
  // Ten configs, each slower than the one before in this list; the default is the slowest.
  StaleTest() {
    template_ = SimpleTemplate({.xblock = {64, 128, 256, 512, 1024}});
    for (const int64_t xblock : {1024, 512, 256, 128, 64}) {
      for (const int64_t vec : {4, 1}) {
        ranked_.push_back(absl::StrCat("XBLOCK=", xblock, " VEC=", vec));
      }
    }
    Start({WithDriver("570.1")});
    Script(1000);
    Tune(kN);
  }
  void Script(double fastest_ns) {
    for (size_t i = 0; i < ranked_.size(); ++i) {
      profiler().SetTiming(ranked_[i], {fastest_ns * (1 + 0.1 * static_cast<double>(i))});
    }
  }
  int CountStale() {
    const auto record = store_->GetTuning(key_);
    const auto present = cache_->PresentProvenance(**record);
    const auto measurements = *store_->GetMeasurements(key_);
    return static_cast<int>(
        std::count_if(measurements.begin(), measurements.end(),
                      [&](const Measurement& m) { return !StaleReason(m, present).empty(); }));
  }

  std::vector<std::string> ranked_;
};

TEST_F(StaleTest, AnotherDriversTimingsAreServedAsStaleUntilTheFrontIsMeasuredAgain) {
  EXPECT_FALSE(Get(kN).stale);
  const uint64_t generation = Get(kN).kernel->generation;
  Start({WithDriver("580.2")});
  Script(1200);  // everything is slower now, but in the same order
  const KernelAnswer stale = Get(kN);
  EXPECT_EQ(ConfigOf(stale), ranked_[0]);
  EXPECT_TRUE(stale.stale);
  EXPECT_EQ(stale.stale_reason, "measured under driver 570.1, now 580.2");
  EXPECT_EQ(CountStale(), 10);

  const TuneRun::Event tuned = Tune(kN);
  ASSERT_THAT(tuned.status, IsOk());
  EXPECT_EQ(tuned.winner->config.ToString(), ranked_[0]);
  EXPECT_EQ(tuned.outcome.measured, 7) << "the winner, the default and five more";
  EXPECT_EQ(tuned.outcome.revalidated, 7);
  for (size_t i = 6; i < 9; ++i) EXPECT_EQ(profiler().checks_of(ranked_[i]), 0) << ranked_[i];
  EXPECT_EQ(CountStale(), 3) << "the rest keep their timings and their order";
  const KernelAnswer fresh = Get(kN);
  EXPECT_FALSE(fresh.stale) << fresh.stale_reason;
  EXPECT_EQ(fresh.kernel->generation, generation) << "nothing changed for those who launch it";

  const int begins = profiler().begins();
  EXPECT_EQ(Tune(kN).outcome.measured, 0);
  EXPECT_EQ(profiler().begins(), begins) << "a winner that stands is not raced again";
}

TEST_F(StaleTest, ANewOrderIsFollowedAsFarAsItBringsNewLeaders) {
  Start({WithDriver("580.2")});
  Script(1200);
  profiler().SetTiming(ranked_[5], {900});  // the last of the first few
  profiler().SetTiming(ranked_[8], {800});
  const TuneRun::Event tuned = Tune(kN);
  EXPECT_EQ(tuned.winner->config.ToString(), ranked_[8]);
  EXPECT_EQ(tuned.outcome.measured, 10);
  EXPECT_EQ(CountStale(), 0);
  EXPECT_EQ(ConfigOf(Get(kN)), ranked_[8]);
}

// Old timings may be lower than any that the new driver allows; they must not win for that.
TEST_F(StaleTest, StaleTimingsDoNotCompeteWithNewOnes) {
  Start({WithDriver("580.2")});
  Script(5000);
  EXPECT_EQ(Tune(kN).winner->config.ToString(), ranked_[0]);
  EXPECT_FALSE(Get(kN).stale);
}

TEST_F(StaleTest, ATuneOfOneConfigUnderANewDriverMeasuresItAndTheFront) {
  Start({WithDriver("580.2")});
  Script(1200);
  TuneOptions options;
  options.only = {Parse(ranked_[7])};
  TuneRun::Event tuned = Tune(kN, options);
  EXPECT_EQ(tuned.outcome.measured, 8);
  EXPECT_EQ(tuned.winner->config.ToString(), ranked_[0]);
  options.only = {Parse(ranked_[8])};
  tuned = Tune(kN, options);
  EXPECT_EQ(tuned.outcome.measured, 2) << "the stale one that is named, and the winner beside it";
}

TEST_F(StaleTest, RevalidationKeepsBothWinners) {
  store_ = std::make_unique<InMemoryStore>();
  const auto script = [&] {
    Script(1000);
    for (size_t i = 0; i < 7; ++i) profiler().SetOutputHash(ranked_[i], "other bits");
  };
  Start({WithDriver("570.1")});
  script();
  EXPECT_EQ(Tune(kN).same_bits->winner.config.ToString(), ranked_[7]);
  Start({WithDriver("580.2")});
  script();
  const TuneRun::Event tuned = Tune(kN);
  EXPECT_EQ(tuned.outcome.measured, 8) << "both winners, the default and five more";
  EXPECT_EQ(tuned.same_bits->winner.config.ToString(), ranked_[7]);
  EXPECT_FALSE(Get(kN, Numerics::kSameBitsAsDefault).stale);
}

TEST_F(StaleTest, AnInterruptedRevalidationIsTakenUpAgain) {
  Start({WithDriver("580.2")});
  Script(1200);
  bool joined = false;
  Notification second, left;
  std::atomic<int> checked{0};
  profiler().OnCheck([&](const ProfileCandidate&) {
    if (++checked != 3) return;
    second.Notify();
    left.WaitForNotification();
  });
  auto run = *cache_->Tune(template_, {{"n", kN}}, {}, {}, &joined);
  const int64_t id = run->Subscribe([](const TuneRun::Event&) {});
  second.WaitForNotification();
  run->Unsubscribe(id);
  left.Notify();
  profiler().OnCheck(nullptr);
  const TuneRun::Event tuned = Tune(kN);
  EXPECT_EQ(tuned.winner->config.ToString(), ranked_[0]);
  EXPECT_FALSE(Get(kN).stale);
  EXPECT_LE(CountStale(), 3);
}

TEST_F(StaleTest, WhoWaitsForATunedKernelWaitsForAStaleOneToBeMeasuredAgain) {
  Start({WithDriver("580.2")});
  Script(1200);
  KernelRequest wait = Request(kN);
  wait.policy = Policy::kWaitTuned;
  EXPECT_TRUE(Get(kN).stale) << "the others are not kept waiting";
  const KernelAnswer answer = Get(wait);
  EXPECT_FALSE(answer.stale) << answer.stale_reason;
  EXPECT_EQ(ConfigOf(answer), ranked_[0]);
  EXPECT_EQ(answer.source, AnswerSource::kTuned);
  EXPECT_EQ(CountStale(), 3) << "the front only, as in a tune that was asked for";
  const int begins = profiler().begins();
  Get(wait);
  EXPECT_EQ(profiler().begins(), begins) << "once";
}

TEST_F(StaleTest, AWaitThatEndsFirstIsAnsweredWithTheStaleKernel) {
  Start({WithDriver("580.2")});
  Notification answered;
  profiler().OnBegin([&](const ProfileProblem&) { answered.WaitForNotification(); });
  KernelRequest wait = Request(kN);
  wait.policy = Policy::kWaitTuned;
  wait.max_wait = absl::Milliseconds(1);
  const KernelAnswer answer = Get(wait);
  answered.Notify();
  EXPECT_TRUE(answer.stale);
  EXPECT_TRUE(answer.tuning) << "the tune goes on";
  EXPECT_EQ(ConfigOf(answer), ranked_[0]);
}

TEST_F(StaleTest, WhereNothingComesOfTheTuneTheStaleKernelAnswers) {
  Start({WithDriver("580.2")});
  profiler().FailBegin(absl::UnavailableError("no lane"));
  KernelRequest wait = Request(kN);
  wait.policy = Policy::kWaitTuned;
  EXPECT_EQ(ConfigOf(Get(wait)), ranked_[0]);
  EXPECT_TRUE(Get(wait).stale);
  options_.tune_when = TuneWhen::kNever;
  Start({WithDriver("580.2")});
  EXPECT_TRUE(Get(wait).stale);
  EXPECT_EQ(profiler().begins(), 0);
}

TEST_F(StaleTest, WhatWasInvalidatedIsServedAsStaleAndMeasuredAnew) {
  const auto dry = cache_->Invalidate({.template_name = "copy"}, "2026-11-30: bad cooling", true);
  ASSERT_THAT(dry, IsOk());
  EXPECT_EQ(dry->measurements, 10);
  EXPECT_FALSE(Get(kN).stale);
  ASSERT_THAT(cache_->Invalidate({.template_name = "copy"}, "2026-11-30: bad cooling", false),
              IsOk());
  const KernelAnswer stale = Get(kN);
  EXPECT_EQ(ConfigOf(stale), ranked_[0]) << "still the best that is known";
  EXPECT_EQ(stale.stale_reason, "invalidated 2026-11-30: bad cooling");
  EXPECT_THAT(store_->GetMeasurements(key_), IsOkAndHolds(SizeIs(10)));

  profiler().SetTiming(ranked_[9], {500});
  const TuneRun::Event tuned = Tune(kN);
  EXPECT_EQ(tuned.outcome.measured, 10);
  EXPECT_EQ(tuned.winner->config.ToString(), ranked_[9]);
  EXPECT_FALSE(Get(kN).stale);
}

TEST_F(StaleTest, AfterAnInvalidationATuneOfOneConfigMeasuresTheFormerWinnerToo) {
  ASSERT_THAT(cache_->Invalidate({.driver = "570.1"}, "why", false), IsOk());
  TuneOptions options;
  options.only = {Parse(ranked_[7])};
  const TuneRun::Event tuned = Tune(kN, options);
  ASSERT_THAT(tuned.status, IsOk());
  EXPECT_EQ(tuned.outcome.measured, 2);
  EXPECT_EQ(tuned.winner->config.ToString(), ranked_[0]);
  EXPECT_EQ(ConfigOf(Get(kN)), ranked_[0]);
}

TEST_F(StaleTest, AForcedTuneOfOneConfigDoesNotUnseatAFasterOne) {
  TuneOptions options;
  options.only = {Parse(ranked_[7])};
  options.force = true;
  const TuneRun::Event tuned = Tune(kN, options);
  ASSERT_THAT(tuned.status, IsOk());
  EXPECT_GE(profiler().checks_of(ranked_[7]), 2) << "measured anew";
  EXPECT_EQ(tuned.winner->config.ToString(), ranked_[0]);
  EXPECT_EQ(ConfigOf(Get(kN)), ranked_[0]);
}

TEST_F(StaleTest, AConfigThatIsNamedAndWonBeforeIsOneCandidate) {
  ASSERT_THAT(cache_->Invalidate({.driver = "570.1"}, "why", false), IsOk());
  TuneOptions options;
  options.only = {Parse(ranked_[0])};
  const TuneRun::Event tuned = Tune(kN, options);
  ASSERT_THAT(tuned.status, IsOk());
  EXPECT_EQ(tuned.outcome.measured, 1);
  EXPECT_EQ(tuned.outcome.reused, 0);
}

TEST_F(StaleTest, AForcedTuneOfASmallBudgetMeasuresTheFormerWinnerToo) {
  TuneOptions options;
  options.force = true;
  options.evaluations_max = 1;
  options.strategy = "exhaustive";
  const TuneRun::Event tuned = Tune(kN, options);
  ASSERT_THAT(tuned.status, IsOk());
  EXPECT_EQ(tuned.winner->config.ToString(), ranked_[0]);
  EXPECT_EQ(ConfigOf(Get(kN)), ranked_[0]);
}

TEST_F(StaleTest, AfterAnInvalidationASmallBudgetLooksAtTheFormerWinnerFirst) {
  ASSERT_THAT(cache_->Invalidate({.driver = "570.1"}, "why", false), IsOk());
  TuneOptions options;
  options.evaluations_max = 2;
  EXPECT_EQ(Tune(kN, options).winner->config.ToString(), ranked_[0]);
}

// ---- Seeds.

TEST_F(DecisionsTest, SeedsAreTheWinnersOfNeighboursThenOfOtherDevices) {
  const auto tune = [&](int64_t n, const std::string& winner) {
    profiler().SetTiming(winner, {100});
    Tune(n);
    profiler().SetTiming(winner, {});
  };
  DeviceInfo other = FakeDeviceInfo();
  other.fingerprint.sm_count = 66;
  Start({other});
  tune(kN, "XBLOCK=128 VEC=1");
  tune(kN / 2, "XBLOCK=64 VEC=4");  // another problem on another device: no seed
  Start({FakeDeviceInfo()});
  tune(kN / 4, "XBLOCK=128 VEC=4");
  tune(kN * 2, "XBLOCK=256 VEC=4");
  tune(kN * 64, "XBLOCK=256 VEC=4");  // again the same: no further seed
  KernelRequest request = Request(kN);
  const auto resolved = ResolveRequest(request, cache_->Devices(), MeasuringPolicy());
  ASSERT_THAT(resolved, IsOk());
  const auto seeds = TuneSeeds(*resolved, *store_);
  ASSERT_THAT(seeds, IsOk());
  std::vector<std::string> configs;
  for (const Config& config : *seeds) configs.push_back(config.ToString());
  EXPECT_THAT(configs, ElementsAre("XBLOCK=256 VEC=4", "XBLOCK=128 VEC=4", "XBLOCK=128 VEC=1"));

  TuneOptions options;
  options.evaluations_max = 2;
  Tune(kN, options);
  EXPECT_THAT(profiler().checked(), testing::IsSupersetOf({"XBLOCK=64 VEC=1", "XBLOCK=256 VEC=4"}));
}

// ---- Near ties.

// scenario P23
TEST_F(DecisionsTest, TwoCandidatesOfIdenticalCodeGiveOneWinnerInTwentyTunes) {
  std::set<std::string> winners;
  for (int round = 0; round < 20; ++round) {
    store_ = std::make_unique<InMemoryStore>();
    Start({FakeDeviceInfo()});
    // The same code twice: their times differ by jitter, now one way, now the other.
    for (const int which : {0, 1}) {
      std::vector<double> samples_ns;
      for (int i = 0; i < 7; ++i) {
        samples_ns.push_back(1000 + ((round * 31 + which * 17 + i * 13) % 9 - 4));
      }
      profiler().SetTiming(which == 0 ? "XBLOCK=128 VEC=1" : "XBLOCK=128 VEC=4", samples_ns);
    }
    for (const char* other :
         {"XBLOCK=64 VEC=1", "XBLOCK=64 VEC=4", "XBLOCK=256 VEC=1", "XBLOCK=256 VEC=4"}) {
      profiler().SetTiming(other, {1500});
    }
    winners.insert(Tune(kN).winner->config.ToString());
  }
  EXPECT_THAT(winners, ElementsAre("XBLOCK=128 VEC=1"));

  // A stored winner is never raced again, and everyone who asks gets the one answer.
  const int samples = profiler().samples();
  EXPECT_EQ(Tune(kN).outcome.measured, 0);
  Mutex mutex;
  std::set<std::string> answers;
  std::vector<std::thread> askers;
  for (int i = 0; i < 16; ++i) {
    askers.emplace_back([&] {
      KernelRequest request = Request(kN);
      request.policy = Policy::kWaitTuned;
      const auto answer = cache_->GetBlocking(request);
      MutexLock lock(&mutex);
      answers.insert(answer.ok() ? answer->kernel->variants.front().artifact->sha256
                                 : std::string(answer.status().message()));
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_THAT(answers, SizeIs(1));
  EXPECT_EQ(profiler().samples(), samples);
  ASSERT_THAT(cache_->PinWinner(key_, Parse("XBLOCK=128 VEC=4"), "the other twin"), IsOk());
  EXPECT_EQ(ConfigOf(Get(kN)), "XBLOCK=128 VEC=4");
}

// ---- Devices.

// scenario P33
TEST_F(DecisionsTest, DevicesShareResultsByWhatTheyAreAndNotByName) {
  DeviceInfo a = FakeDeviceInfo();
  a.name = "NVIDIA H200";
  DeviceInfo b = a;
  b.name = "NVIDIA H200 NVL";
  DeviceInfo c = a;
  c.fingerprint.sm_count = 78;
  Start({a});
  Tune(kN);
  const std::string tuned = ConfigOf(Get(kN));

  Start({b});
  KernelRequest frozen = Request(kN);
  frozen.policy = Policy::kFrozen;
  EXPECT_EQ(Get(frozen).source, AnswerSource::kTuned);
  EXPECT_EQ(ConfigOf(Get(frozen)), tuned);
  EXPECT_EQ(Tune(kN).outcome.measured, 0);

  Start({c});
  EXPECT_THAT(cache_->GetBlocking(frozen), IsOk()) << "the binary is for its architecture too";
  EXPECT_EQ(Get(frozen).source, AnswerSource::kDefault) << "but no timing of A's speaks for it";
  EXPECT_EQ(Get(frozen).answered_by_key, "");
  EXPECT_EQ(Get(kN).source, AnswerSource::kDefault);
  EXPECT_EQ(Tune(kN).outcome.measured, 6);
}

// scenario P34
TEST_F(DecisionsTest, WholeBoardSliceAndThreadLimitHaveResultsOfTheirOwn) {
  const DeviceInfo whole = FakeDeviceInfo();
  DeviceInfo slice = whole;
  slice.fingerprint.sm_count = 16;
  slice.fingerprint.memory_bytes = int64_t{16} << 30;
  slice.fingerprint.slice = "MIG 1g.18gb";
  DeviceInfo limited = whole;
  limited.fingerprint.sm_count = 46;  // as a context under an MPS thread limit counts them
  Start({whole, slice, limited});
  const std::vector<std::string> best = {"XBLOCK=256 VEC=4", "XBLOCK=64 VEC=4", "XBLOCK=128 VEC=1"};
  std::set<std::string> keys;
  for (int device = 0; device < 3; ++device) {
    const auto index = static_cast<size_t>(device);
    profiler(index).SetTiming(best[index], {100});
    EXPECT_EQ(Tune(kN, {}, device).outcome.measured, 6) << device;
    keys.insert(key_);
  }
  EXPECT_THAT(keys, SizeIs(3));
  for (int device = 0; device < 3; ++device) {
    KernelRequest request = Request(kN);
    request.target.device_index = device;
    EXPECT_EQ(ConfigOf(Get(request)), best[static_cast<size_t>(device)]);
  }
  const auto page = store_->ListTunings("copy", 10, "");
  ASSERT_THAT(page, IsOk());
  std::set<std::string> slices;
  for (const TuningRecord& record : page->records) slices.insert(record.device.slice);
  EXPECT_THAT(slices, ElementsAre("", "MIG 1g.18gb"));
}

}  // namespace
}  // namespace hone
