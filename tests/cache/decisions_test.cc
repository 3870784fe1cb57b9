// What people decide over measurements: pins, and whose bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cache/decisions_fixture.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// ---- Pins.

class PinTest : public DecisionsTest {
 protected:
  PinTest() {
    profiler().SetTiming("XBLOCK=128 VEC=1", {1500});
    profiler().SetTiming("XBLOCK=256 VEC=4", {1000});
    profiler().RejectOnCheck("XBLOCK=64 VEC=4",
                             {.kind = RejectionKind::kWrongResult, .detail = "max error 3"});
    Tune(kN);
  }
};

// scenario P23
TEST_F(PinTest, APinnedConfigAnswersWhateverLaterTunesFind) {
  const uint64_t before = Get(kN).kernel->generation;
  const auto pin = cache_->PinWinner(key_, Parse("VEC=1 XBLOCK=128"), "agreed on all ranks");
  ASSERT_THAT(pin, IsOk());
  EXPECT_EQ(pin->config->ToString(), "XBLOCK=128 VEC=1");
  const KernelAnswer answer = Get(kN);
  EXPECT_EQ(ConfigOf(answer), "XBLOCK=128 VEC=1");
  EXPECT_EQ(answer.source, AnswerSource::kTuned);
  EXPECT_EQ(answer.pin->reason, "agreed on all ranks");
  EXPECT_GT(answer.kernel->generation, before);

  TuneOptions force;
  force.force = true;
  const TuneRun::Event tuned = Tune(kN, force);
  EXPECT_EQ(tuned.outcome.measured, 5) << "tunes go on measuring";
  EXPECT_EQ(tuned.winner->config.ToString(), "XBLOCK=256 VEC=4");
  EXPECT_EQ(tuned.pin->config->ToString(), "XBLOCK=128 VEC=1") << "and say what is served";
  EXPECT_EQ(ConfigOf(Get(kN)), "XBLOCK=128 VEC=1");
  EXPECT_EQ(Get(kN).kernel->generation, answer.kernel->generation);

  Start({FakeDeviceInfo()});
  EXPECT_EQ(ConfigOf(Get(kN)), "XBLOCK=128 VEC=1") << "after a restart too";
}

TEST_F(PinTest, UnpinningLetsTheMeasurementsDecideUnderANewGeneration) {
  ASSERT_THAT(cache_->PinWinner(key_, Parse("XBLOCK=128 VEC=1"), "why"), IsOk());
  const uint64_t pinned = Get(kN).kernel->generation;
  const auto was = cache_->UnpinWinner(key_);
  ASSERT_THAT(was, IsOk());
  EXPECT_EQ(was->config->ToString(), "XBLOCK=128 VEC=1");
  const KernelAnswer answer = Get(kN);
  EXPECT_EQ(ConfigOf(answer), "XBLOCK=256 VEC=4");
  EXPECT_FALSE(answer.pin);
  EXPECT_GT(answer.kernel->generation, pinned);
  EXPECT_EQ(answer.kernel->generation, was->generation);
  EXPECT_THAT(cache_->UnpinWinner(key_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not pinned")));
}

TEST_F(PinTest, APinOutlivesATimeoutButNotAWrongResult) {
  ASSERT_THAT(cache_->PinWinner(key_, Parse("XBLOCK=128 VEC=1"), ""), IsOk());
  const auto reject = [&](RejectionKind kind) {
    Measurement rejected;
    rejected.config = Parse("XBLOCK=128 VEC=1");
    rejected.rejection = Rejection{.kind = kind};
    ASSERT_THAT(store_->PutMeasurement(key_, rejected), IsOk());
    Start({FakeDeviceInfo()});
  };
  reject(RejectionKind::kTimeout);
  EXPECT_EQ(ConfigOf(Get(kN)), "XBLOCK=128 VEC=1") << "a moment's trouble";
  EXPECT_TRUE(Get(kN).pin);
  reject(RejectionKind::kWrongResult);
  EXPECT_EQ(ConfigOf(Get(kN)), "XBLOCK=256 VEC=4");
  EXPECT_FALSE(Get(kN).pin);
}

TEST_F(PinTest, WhatCannotBePinnedIsRefusedWithWhatCould) {
  EXPECT_THAT(cache_->PinWinner(key_, Parse("VEC=1 XBLOCK=512"), ""),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("'XBLOCK=512 VEC=1' was never measured"),
                             HasSubstr("fastest measured are 'XBLOCK=256 VEC=4' (1000 ns)"))));
  EXPECT_THAT(cache_->PinWinner(key_, Parse("XBLOCK=64 VEC=4"), ""),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("rejected: wrong_result: max error 3"),
                             HasSubstr("'XBLOCK=256 VEC=4'"))));
  EXPECT_THAT(cache_->PinWinner(std::string(64, '0'), Parse("XBLOCK=64 VEC=1"), ""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no tuning 000")));
  EXPECT_FALSE(Get(kN).pin);
}

TEST_F(PinTest, WatchersSeePinningAndUnpinningButNoWinnerMeanwhile) {
  Mutex mutex;
  std::vector<uint64_t> generations;
  const int64_t id =
      cache_->Watch("copy", Numerics::kWithinTolerance,
                    [&](const std::string&, const std::string&, uint64_t generation) {
                      MutexLock lock(&mutex);
                      generations.push_back(generation);
                    });
  const uint64_t pinned = cache_->PinWinner(key_, Parse("XBLOCK=128 VEC=1"), "")->generation;
  TuneOptions force;
  force.force = true;
  Tune(kN, force);
  const uint64_t unpinned = cache_->UnpinWinner(key_)->generation;
  cache_->Unwatch(id);
  MutexLock lock(&mutex);
  ASSERT_THAT(generations, SizeIs(3));
  EXPECT_THAT(generations, ElementsAre(testing::Lt(pinned), pinned, unpinned));
}

TEST_F(PinTest, APinnedConfigThatAConstraintExcludesForTheTrueSizeDoesNotAnswer) {
  template_ = SimpleTemplate({.constraints = {"n % VEC == 0"}});
  Tune(64);  // the bucket of 65
  ASSERT_THAT(cache_->PinWinner(key_, Parse("XBLOCK=256 VEC=4"), ""), IsOk());
  EXPECT_EQ(ConfigOf(Get(64)), "XBLOCK=256 VEC=4");
  const KernelAnswer other = Get(65);
  EXPECT_EQ(other.source, AnswerSource::kBucket);
  EXPECT_NE(ConfigOf(other), "XBLOCK=256 VEC=4");
  EXPECT_FALSE(other.pin);
}

// ---- Bits.

class BitsTest : public DecisionsTest {
 protected:
  BitsTest() {
    profiler().SetTiming("XBLOCK=64 VEC=1", {2000});
    profiler().SetTiming("XBLOCK=128 VEC=1", {1500});
    profiler().SetTiming("XBLOCK=256 VEC=1", {1600});
    profiler().SetTiming("XBLOCK=256 VEC=4", {1000});
    profiler().SetOutputHash("XBLOCK=256 VEC=4", "other bits");
  }
};

TEST_F(BitsTest, TwoWinnersOfOneSetOfMeasurements) {
  const TuneRun::Event tuned = Tune(kN);
  EXPECT_EQ(tuned.winner->config.ToString(), "XBLOCK=256 VEC=4");
  ASSERT_NE(tuned.same_bits, nullptr);
  EXPECT_EQ(tuned.same_bits->winner.config.ToString(), "XBLOCK=128 VEC=1");
  EXPECT_EQ(tuned.same_bits->runner_up->config.ToString(), "XBLOCK=256 VEC=1");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ConfigOf(Get(kN)), "XBLOCK=256 VEC=4");
    const KernelAnswer answer = Get(kN, Numerics::kSameBitsAsDefault);
    EXPECT_EQ(ConfigOf(answer), "XBLOCK=128 VEC=1");
    EXPECT_EQ(answer.source, AnswerSource::kTuned);
    EXPECT_GT(answer.kernel->generation, 0u);
  }
  Start({FakeDeviceInfo()});
  EXPECT_EQ(ConfigOf(Get(kN, Numerics::kSameBitsAsDefault)), "XBLOCK=128 VEC=1");
  EXPECT_EQ(profiler().begins(), 0);
}

TEST_F(BitsTest, AFallbackHasTheDefaultsBitsToo) {
  profiler().SetOutputHash("XBLOCK=256 VEC=4", "");  // all have the same again
  profiler().SetOutputHash("XBLOCK=128 VEC=1", "other bits");
  Tune(kN);
  const KernelAnswer answer = Get(kN, Numerics::kSameBitsAsDefault);
  ASSERT_THAT(answer.kernel->variants, SizeIs(2));
  EXPECT_EQ(ConfigOf(answer), "XBLOCK=256 VEC=4");
  EXPECT_EQ(answer.kernel->variants.back().config.ToString(), "XBLOCK=256 VEC=1");
  EXPECT_EQ(Get(kN).kernel->variants.back().config.ToString(), "XBLOCK=128 VEC=1");
}

TEST_F(BitsTest, WhereTheDefaultsBitsAreNotKnownTheDefaultAnswers) {
  profiler().SetIrreproducible("XBLOCK=64 VEC=1");
  EXPECT_EQ(Tune(kN).same_bits, nullptr);
  const KernelAnswer answer = Get(kN, Numerics::kSameBitsAsDefault);
  EXPECT_EQ(answer.source, AnswerSource::kDefault);
  EXPECT_EQ(ConfigOf(answer), "XBLOCK=64 VEC=1");
}

TEST_F(BitsTest, ANeighboursBitsSayNothingAboutThisProblem) {
  Tune(kN);
  EXPECT_EQ(Get(4096).source, AnswerSource::kNearest);
  const KernelAnswer answer = Get(4096, Numerics::kSameBitsAsDefault);
  EXPECT_EQ(answer.source, AnswerSource::kDefault);
  EXPECT_EQ(ConfigOf(answer), "XBLOCK=64 VEC=1");
}

TEST_F(BitsTest, APinOfOtherBitsDoesNotAnswerThoseWhoWantTheDefaults) {
  Tune(kN);
  ASSERT_THAT(cache_->PinWinner(key_, Parse("XBLOCK=256 VEC=4"), ""), IsOk());
  EXPECT_EQ(ConfigOf(Get(kN, Numerics::kSameBitsAsDefault)), "XBLOCK=128 VEC=1");
  ASSERT_THAT(cache_->PinWinner(key_, Parse("XBLOCK=256 VEC=1"), ""), IsOk());
  EXPECT_EQ(ConfigOf(Get(kN, Numerics::kSameBitsAsDefault)), "XBLOCK=256 VEC=1");
}

}  // namespace
}  // namespace hone
