#include "runtime/tune/autotuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/time/clock.h"
#include "runtime/tune/winner.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_profiler.h"
#include "tests/testing/simple_template.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::SizeIs;

class Recorder : public TuneObserver {
 public:
  void OnStarted(int64_t candidates, int64_t reused, const Config& default_config,
                 int64_t work_bytes, int64_t) override {
    candidates_ = candidates;
    reused_ = reused;
    default_config_ = default_config.ToString();
    work_bytes_ = work_bytes;
  }
  void OnMeasurement(const Measurement& measurement) override {
    by_config_[measurement.config.ToString()] = measurement;
    if (on_measurement_) on_measurement_(measurement);
  }
  void OnProgress(int64_t, int64_t, const std::string&) override {}

  int64_t candidates_ = 0, reused_ = 0, work_bytes_ = 0;
  std::string default_config_;
  std::map<std::string, Measurement> by_config_;
  std::function<void(const Measurement&)> on_measurement_;
};

class AutotunerTest : public testing::Test {
 protected:
  AutotunerTest() { Use({}); }

  void Use(const SimpleTemplateOptions& options) {
    spec_.kernel_template = SimpleTemplate(options);
    spec_.problem = *Problem::Create(*spec_.kernel_template, {{"n", int64_t{1} << 20}});
    spec_.device = FakeDeviceInfo();
  }
  absl::StatusOr<TuneOutcome> Tune() {
    return Autotuner(&compiler_).Tune(spec_, profiler_, recorder_, [this] { return cancelled_; });
  }
  RejectionKind KindOf(const std::string& config) {
    const Measurement& measurement = recorder_.by_config_.at(config);
    EXPECT_TRUE(measurement.rejection.has_value()) << config;
    return measurement.rejection ? measurement.rejection->kind : RejectionKind::kUnstable;
  }

  FakeCompiler compiler_;
  FakeProfiler profiler_;
  Recorder recorder_;
  TuneSpec spec_;
  bool cancelled_ = false;
};

TEST_F(AutotunerTest, EveryValidConfigIsCheckedAndTimed) {
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->measured, 6);
  EXPECT_EQ(outcome->rejected, 0);
  EXPECT_FALSE(outcome->unverified);
  EXPECT_EQ(recorder_.candidates_, 6);
  EXPECT_EQ(recorder_.work_bytes_, 2 * 4 * (1 << 20));
  EXPECT_EQ(recorder_.default_config_, "XBLOCK=64 VEC=1");
  EXPECT_THAT(outcome->measurements, SizeIs(6));
  for (const Measurement& measurement : outcome->measurements) {
    EXPECT_TRUE(measurement.verified);
    EXPECT_THAT(measurement.samples_ns, Not(testing::IsEmpty()));
    EXPECT_THAT(measurement.artifact_sha256, SizeIs(64));
  }
}

TEST_F(AutotunerTest, DeviceIsGivenBackAfterTheTune) {
  ASSERT_THAT(Tune(), IsOk());
  EXPECT_EQ(profiler_.begins(), 1);
  EXPECT_EQ(profiler_.ends(), 1);
  EXPECT_EQ(profiler_.loaded(), 0);
}

// scenario P24
TEST_F(AutotunerTest, CandidateThatDoesNotCompileCostsOnlyItself) {
  compiler_.FailFor("copy<float, 128, 4>",
                    Rejection{.kind = RejectionKind::kCompile, .detail = "static_assert failed"});
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(KindOf("XBLOCK=128 VEC=4"), RejectionKind::kCompile);
  EXPECT_EQ(outcome->measured, 5);
  EXPECT_EQ(outcome->rejected, 1);
}

// scenario P24
TEST_F(AutotunerTest, CandidateNeedingTooMuchSharedMemoryIsNeverLaunched) {
  compiler_.SetResources("copy<float, 256, 4>", {.static_shared_bytes = 300'000});
  ASSERT_THAT(Tune(), IsOk());
  EXPECT_EQ(KindOf("XBLOCK=256 VEC=4"), RejectionKind::kResources);
  EXPECT_EQ(profiler_.checks_of("XBLOCK=256 VEC=4"), 0);
}

// scenario P25, P26, P27
TEST_F(AutotunerTest, FaultsHangsAndWrongResultsAreRejectedByKindAndTheRestTimed) {
  profiler_.RejectOnCheck("XBLOCK=64 VEC=4", {.kind = RejectionKind::kIllegalAccess});
  profiler_.RejectOnCheck("XBLOCK=128 VEC=1", {.kind = RejectionKind::kTimeout});
  profiler_.RejectOnCheck("XBLOCK=128 VEC=4", {.kind = RejectionKind::kWrongResult});
  profiler_.RejectOnSample("XBLOCK=256 VEC=1", {.kind = RejectionKind::kCrash});
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(KindOf("XBLOCK=64 VEC=4"), RejectionKind::kIllegalAccess);
  EXPECT_EQ(KindOf("XBLOCK=128 VEC=1"), RejectionKind::kTimeout);
  EXPECT_EQ(KindOf("XBLOCK=128 VEC=4"), RejectionKind::kWrongResult);
  EXPECT_EQ(KindOf("XBLOCK=256 VEC=1"), RejectionKind::kCrash);
  EXPECT_EQ(outcome->measured, 2);
}

TEST_F(AutotunerTest, NoSurvivorIsAnOutcomeNotAnError) {
  compiler_.FailFor("copy<float", Rejection{.kind = RejectionKind::kCompile});
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->measured, 0);
  EXPECT_EQ(outcome->rejected, 6);
}

TEST_F(AutotunerTest, ReferenceThatDoesNotCompileEndsTheTuneBeforeAnyCandidate) {
  compiler_.FailFor("copy_reference",
                    Rejection{.kind = RejectionKind::kCompile, .detail = "no such type"});
  EXPECT_THAT(Tune(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no such type")));
  EXPECT_EQ(profiler_.begins(), 0);
}

TEST_F(AutotunerTest, RoundsInterleaveTheContenders) {
  for (const char* config : {"XBLOCK=64 VEC=1", "XBLOCK=64 VEC=4", "XBLOCK=128 VEC=1",
                             "XBLOCK=128 VEC=4", "XBLOCK=256 VEC=1", "XBLOCK=256 VEC=4"}) {
    profiler_.SetTiming(config, {1000, 1010, 990});
  }
  ASSERT_THAT(Tune(), IsOk());
  const std::vector<std::string> sampled = profiler_.sampled();
  // The last six samples are one round over six different configs.
  ASSERT_GE(sampled.size(), 6u);
  std::vector<std::string> round(sampled.end() - 6, sampled.end());
  std::sort(round.begin(), round.end());
  EXPECT_EQ(std::unique(round.begin(), round.end()), round.end());
}

TEST_F(AutotunerTest, CandidateClearlyBehindGetsNoMoreSamples) {
  profiler_.SetTiming("XBLOCK=64 VEC=1", {1000});
  profiler_.SetTiming("XBLOCK=256 VEC=4", {9000});
  ASSERT_THAT(Tune(), IsOk());
  EXPECT_LT(recorder_.by_config_.at("XBLOCK=256 VEC=4").samples_ns.size(),
            recorder_.by_config_.at("XBLOCK=64 VEC=1").samples_ns.size());
}

TEST_F(AutotunerTest, DefaultRacesToTheEndHoweverSlow) {
  profiler_.SetTiming("XBLOCK=64 VEC=1", {90'000});
  profiler_.SetTiming("XBLOCK=256 VEC=4", {1000});
  ASSERT_THAT(Tune(), IsOk());
  EXPECT_EQ(recorder_.by_config_.at("XBLOCK=64 VEC=1").samples_ns.size(),
            recorder_.by_config_.at("XBLOCK=256 VEC=4").samples_ns.size());
}

// scenario P30
TEST_F(AutotunerTest, SecondTuneMeasuresNothingAndTouchesNoDevice) {
  spec_.known = Tune()->measurements;
  spec_.known_race_finished = true;
  const auto again = Tune();
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->measured, 0);
  EXPECT_EQ(again->reused, 6);
  EXPECT_EQ(profiler_.begins(), 1);
}

// scenario P30
TEST_F(AutotunerTest, AddedValueMeasuresOnlyTheNewPointsAndTheIncumbent) {
  profiler_.SetTiming("XBLOCK=128 VEC=4", {10});
  spec_.known = Tune()->measurements;
  spec_.known_race_finished = true;
  Use({.xblock = {64, 128, 256, 512}});
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->reused, 6);
  EXPECT_EQ(outcome->measured, 3);
  const std::vector<std::string> checked = profiler_.checked();
  std::vector<std::string> second(checked.begin() + 6, checked.end());
  std::sort(second.begin(), second.end());
  EXPECT_THAT(second, ElementsAre("XBLOCK=128 VEC=4", "XBLOCK=512 VEC=1", "XBLOCK=512 VEC=4"));
}

// scenario P30
TEST_F(AutotunerTest, TheIncumbentIsTheWinnerAndNotWhatIsFasterByLessThanNoise) {
  for (const char* config : {"XBLOCK=64 VEC=4", "XBLOCK=128 VEC=1", "XBLOCK=128 VEC=4",
                             "XBLOCK=256 VEC=1", "XBLOCK=256 VEC=4"}) {
    profiler_.SetTiming(config, {2000});
  }
  profiler_.SetTiming("XBLOCK=64 VEC=1", {1000});  // the default
  profiler_.SetTiming("XBLOCK=256 VEC=4", {998});
  spec_.known = Tune()->measurements;
  spec_.known_race_finished = true;
  const size_t before = profiler_.checked().size();
  Use({.xblock = {64, 128, 256, 512}});
  ASSERT_THAT(Tune(), IsOk());
  const std::vector<std::string> checked = profiler_.checked();
  EXPECT_THAT(
      std::vector<std::string>(checked.begin() + static_cast<ptrdiff_t>(before), checked.end()),
      testing::UnorderedElementsAre("XBLOCK=64 VEC=1", "XBLOCK=512 VEC=1", "XBLOCK=512 VEC=4"));
}

TEST_F(AutotunerTest, KilledTuneResumesWithWhatIsMissing) {
  recorder_.on_measurement_ = [this](const Measurement&) {
    cancelled_ = recorder_.by_config_.size() >= 3;
  };
  const auto first = Tune();
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(first->stopped_early, "cancelled");
  ASSERT_EQ(first->measured, 3);
  spec_.known = first->measurements;
  cancelled_ = false;
  recorder_.on_measurement_ = nullptr;
  const auto second = Tune();
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->reused, 3);
  EXPECT_THAT(second->measurements, SizeIs(6));
  EXPECT_THAT(second->measurements,
              Each(testing::Field(&Measurement::samples_ns, Not(testing::IsEmpty()))));
}

TEST_F(AutotunerTest, TimeoutIsTriedAgainOnlyAfterItExpired) {
  Measurement timed_out;
  timed_out.config = *Config::Parse("XBLOCK=128 VEC=4");
  timed_out.rejection = Rejection{.kind = RejectionKind::kTimeout};
  timed_out.measured_at_unix_ms = absl::ToUnixMillis(absl::Now());
  spec_.known = {timed_out};
  ASSERT_THAT(Tune(), IsOk());
  EXPECT_EQ(profiler_.checks_of("XBLOCK=128 VEC=4"), 0);
  spec_.known.front().measured_at_unix_ms -= 2 * 3600 * 1000;
  ASSERT_THAT(Tune(), IsOk());
  EXPECT_EQ(profiler_.checks_of("XBLOCK=128 VEC=4"), 1);
}

TEST_F(AutotunerTest, InvalidPointsOfASmallSpaceAreRecordedWithTheirConstraint) {
  Use({.constraints = {"XBLOCK * VEC <= 512"}});
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(KindOf("XBLOCK=256 VEC=4"), RejectionKind::kConstraint);
  EXPECT_THAT(recorder_.by_config_.at("XBLOCK=256 VEC=4").rejection->detail,
              HasSubstr("XBLOCK * VEC <= 512"));
  EXPECT_EQ(outcome->measured, 5);
}

TEST_F(AutotunerTest, BudgetOfEvaluationsIsKept) {
  spec_.evaluations_max = 3;
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->measured, 3);
  EXPECT_THAT(profiler_.checked(), Contains("XBLOCK=64 VEC=1")) << "the default always races";
}

TEST_F(AutotunerTest, BudgetOfSecondsEndsTheTuneWithWhatThereIs) {
  spec_.time_max = absl::ZeroDuration();
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_THAT(outcome->stopped_early, HasSubstr("seconds"));
}

TEST_F(AutotunerTest, WithoutReferenceTheDefaultIsCheckedFirstAndTheTuneIsUnverified) {
  Use({.reference = false});
  compiler_.SetParallelism(8);
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_TRUE(outcome->unverified);
  EXPECT_EQ(profiler_.checked().front(), "XBLOCK=64 VEC=1");
}

TEST_F(AutotunerTest, FailedLaneKeepsWhatWasMeasured) {
  profiler_.FailOn("XBLOCK=256 VEC=4", absl::UnavailableError("the device fell off the bus"));
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_THAT(outcome->stopped_early, HasSubstr("fell off the bus"));
  EXPECT_GE(outcome->measured, 1);
}

TEST_F(AutotunerTest, LaneThatCannotBeginIsAnError) {
  profiler_.FailBegin(absl::ResourceExhaustedError("needs 2 GB, 300 MB free"));
  EXPECT_THAT(Tune(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("300 MB")));
}

TEST_F(AutotunerTest, UnknownTunableInAnAskedConfigIsRefusedByName) {
  spec_.only = {*Config::Parse("XBLOCK=64 WARPS=2")};
  EXPECT_THAT(Tune(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("WARPS")));
}

// scenario P23
TEST_F(AutotunerTest, CandidatesOfTheSameWorkAreMeasuredOnce) {
  Use({.unused = {3, 1, 2}});
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->measured, 6);
  EXPECT_EQ(outcome->identical, 12);
  ASSERT_THAT(outcome->measurements, SizeIs(18));
  for (const Measurement& measurement : outcome->measurements) {
    const Config& config = measurement.config;
    const std::string text = config.ToString();
    const bool first = measurement.same_work_as.empty();
    EXPECT_EQ(profiler_.checks_of(text), first ? 1 : 0) << text;
    if (first) continue;
    const Measurement& original = recorder_.by_config_.at(measurement.same_work_as);
    EXPECT_EQ(measurement.samples_ns, original.samples_ns) << text;
    EXPECT_EQ(measurement.paired_ratio, original.paired_ratio) << text;
    EXPECT_TRUE(measurement.verified) << text;
  }
}

// scenario P23
TEST_F(AutotunerTest, OfTheSameWorkTheFirstDeclaredWinsAndTheRunnerUpIsOtherWork) {
  Use({.unused = {3, 1, 2}});
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  const auto space = ConfigSpace::Create(spec_.kernel_template, spec_.problem,
                                         spec_.device.architecture, spec_.device.Facts());
  const auto choice = ChooseWinner(*space, outcome->measurements);
  ASSERT_TRUE(choice && choice->runner_up);
  const Measurement& winner = outcome->measurements[choice->winner];
  EXPECT_THAT(winner.config.ToString(), HasSubstr("UNUSED=3"));
  EXPECT_FALSE(AreSameWork(winner, outcome->measurements[*choice->runner_up]));
}

TEST_F(AutotunerTest, ARejectionHoldsForTheSameWork) {
  Use({.unused = {1, 2}});
  profiler_.RejectOnCheck("XBLOCK=64 VEC=4 UNUSED=1", {.kind = RejectionKind::kWrongResult});
  profiler_.RejectOnCheck("XBLOCK=64 VEC=4 UNUSED=2", {.kind = RejectionKind::kWrongResult});
  ASSERT_THAT(Tune(), IsOk());
  EXPECT_EQ(KindOf("XBLOCK=64 VEC=4 UNUSED=1"), RejectionKind::kWrongResult);
  EXPECT_EQ(KindOf("XBLOCK=64 VEC=4 UNUSED=2"), RejectionKind::kWrongResult);
  EXPECT_EQ(profiler_.checks_of("XBLOCK=64 VEC=4 UNUSED=1") +
                profiler_.checks_of("XBLOCK=64 VEC=4 UNUSED=2"),
            1);
}

TEST_F(AutotunerTest, ARankedTuneTriesAShareAndSaysWhatThatMayHaveCost) {
  spec_.ranked_share = 0.4;
  spec_.problem = *Problem::Create(*spec_.kernel_template, {{"n", int64_t{8192}}});
  // The estimate thinks little of few blocks with VEC=4. Of those three two are controls, so at
  // least one of the fast ones is seen.
  for (const char* config :
       {"XBLOCK=64 VEC=1", "XBLOCK=128 VEC=1", "XBLOCK=256 VEC=1", "XBLOCK=64 VEC=4"}) {
    profiler_.SetTiming(config, {1000});
  }
  profiler_.SetTiming("XBLOCK=128 VEC=4", {500});
  profiler_.SetTiming("XBLOCK=256 VEC=4", {500});
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->measured, 5);
  EXPECT_EQ(outcome->left_out, 1);
  EXPECT_DOUBLE_EQ(outcome->ranking_regret, 1.0);
}

TEST_F(AutotunerTest, AStrategyThatChoosesByResultsCannotBeRanked) {
  spec_.ranked_share = 0.5;
  spec_.strategy = "local";
  const auto outcome = Tune();
  EXPECT_THAT(outcome, StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  EXPECT_THAT(outcome.status().message(), HasSubstr("ranked_share"));
}

TEST_F(AutotunerTest, ALargeSpaceIsCoveredBitByBitInDeclarationOrder) {
  std::vector<int64_t> many(2500);
  std::iota(many.begin(), many.end(), 1);
  Use({.xblock = {64}, .vec = {1, 4}, .unused = many});
  spec_.strategy = "exhaustive";
  spec_.patience = 20;
  const auto outcome = Tune();
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(recorder_.candidates_, 5000);
  EXPECT_THAT(outcome->stopped_early, HasSubstr("no faster candidate in 20"));
  EXPECT_LT(outcome->measurements.size(), 100u);
  EXPECT_TRUE(recorder_.by_config_.contains("XBLOCK=64 VEC=1 UNUSED=1"));
}

}  // namespace
}  // namespace hone
