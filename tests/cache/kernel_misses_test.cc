// Requests that no winner of their own answers: buckets, neighbours, defaults, and what is said and
// kept about them.
#include <map>

#include "tests/cache/kernel_cache_fixture.h"

namespace hone {
namespace {

using testing::SizeIs;

class KernelMissesTest : public KernelCacheFixture {};

// scenario P32: a thousand sizes, four tunes, and the reply says which bucket answered.
TEST_F(KernelMissesTest, AThousandSizesAreFourTunedKeysAndTheLargestBucketTakesTheRest) {
  template_ = SimpleTemplate({.bucket = BucketRule::kList, .bucket_values = {1, 16, 256, 4096}});
  const std::map<int64_t, int64_t> buckets = {
      {1, 1},      {17, 16},    {300, 256}, {5000, 4096}, {int64_t{1} << 40, 4096},
      {0, 1},      {15, 1},     {16, 16},   {255, 16},    {256, 256},
      {4095, 256}, {4096, 4096}};
  for (const auto& [n, bucket] : buckets) {
    if (n > 5000) continue;
    const KernelAnswer answer = Get(n, Policy::kWaitTuned);
    EXPECT_EQ(answer.source, n == bucket ? AnswerSource::kTuned : AnswerSource::kBucket) << n;
    EXPECT_EQ(answer.answered_by_values.at("n"), Value(bucket)) << n;
    EXPECT_EQ(answer.bucket_values.at("n"), Value(bucket)) << n;
  }
  for (int64_t n = 1; n <= 7 * 1000; n += 7) Get(n, Policy::kWaitTuned);
  EXPECT_EQ(Counter("tunes"), 4);
  EXPECT_THAT(store_.FindTunings("", 100), IsOkAndHolds(SizeIs(4)));
  const KernelAnswer overflow = Get(int64_t{1} << 40);
  EXPECT_EQ(overflow.source, AnswerSource::kBucket);
  EXPECT_EQ(overflow.answered_by_values.at("n"), Value(int64_t{4096}));
}

// scenario P32: what wins in the bucket need not be allowed for every size in it.
TEST_F(KernelMissesTest, ABucketsWinnerThatBreaksAConstraintForTheTrueSizeIsNotServed) {
  template_ = SimpleTemplate({.constraints = {"n % VEC == 0"},
                              .bucket = BucketRule::kList,
                              .bucket_values = {1, 16, 256, 4096}});
  profiler_->SetTiming("XBLOCK=256 VEC=1", {3000});
  EXPECT_EQ(WinnerOf(Get(256, Policy::kWaitTuned)), "XBLOCK=256 VEC=4");
  EXPECT_EQ(WinnerOf(Get(300)), "XBLOCK=256 VEC=4") << "a multiple of 4";
  const KernelAnswer odd = Get(301);
  EXPECT_EQ(odd.source, AnswerSource::kBucket);
  EXPECT_EQ(WinnerOf(odd), "XBLOCK=128 VEC=1") << "the best of the bucket that may run";
  ASSERT_TRUE(odd.kernel->variants.front().measurement.has_value());
  for (const KernelVariant& variant : odd.kernel->variants) {
    EXPECT_EQ(variant.config.value("VEC"), 1);
  }
}

// scenario P35
TEST_F(KernelMissesTest, AnUntunedAnswerNamesTheKeyThatMissedAndTheNearestOnes) {
  EXPECT_THAT(Get(kN).nearest_keys, SizeIs(0)) << "nothing is tuned";
  for (const int64_t n : {64, 4096, 1 << 14, 1 << 18, 1 << 24}) Tune(n);
  const KernelAnswer answer = Get(kN);
  EXPECT_EQ(answer.source, AnswerSource::kNearest);
  EXPECT_EQ(answer.key, cache_->Explain(Request(kN))->tuning_key->id());
  ASSERT_THAT(answer.nearest_keys, SizeIs(3));
  EXPECT_EQ(answer.nearest_keys[0].problem, "T=F32 n=262144");
  EXPECT_EQ(answer.nearest_keys[0].key, answer.answered_by_key);
  EXPECT_EQ(answer.nearest_keys[1].problem, "T=F32 n=16777216");
  EXPECT_THAT(answer.nearest_keys[0].differs_in, testing::ElementsAre("param.n"));
  EXPECT_THAT(Get(4096).nearest_keys, SizeIs(0)) << "a tuned answer needs none";
}

// scenario P35
TEST_F(KernelMissesTest, ADeviceWithoutResultsIsToldWhatOthersHave) {
  Tune(kN);
  KernelRequest request = Request(kN);
  request.target.device = FakeDeviceInfo().fingerprint;
  request.target.device->sm_count = 46;
  const auto answer = cache_->GetBlocking(request);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->source, AnswerSource::kDefault);
  ASSERT_THAT(answer->nearest_keys, SizeIs(1));
  EXPECT_THAT(answer->nearest_keys[0].differs_in, testing::ElementsAre("device.sm_count"));
}

// scenario P35
TEST_F(KernelMissesTest, EveryUntunedAnswerIsCountedUntilItsKeyIsTuned) {
  for (int i = 0; i < 5; ++i) Get(kN);
  EXPECT_EQ(Counter("untuned"), 5);
  EXPECT_EQ(Counter("memory_hits"), 4) << "hits are counted too";
  const int64_t written = store_.counters().miss_puts;
  const auto misses = cache_->ListMisses({});
  ASSERT_THAT(misses, IsOkAndHolds(SizeIs(1)));
  EXPECT_EQ(misses->front().count, 5);
  EXPECT_EQ(misses->front().problem, "T=F32 n=1048576");
  EXPECT_EQ(misses->front().policy, "BEST_AVAILABLE");
  EXPECT_EQ(misses->front().tuning_key, cache_->Explain(Request(kN))->tuning_key->id());
  EXPECT_LE(store_.counters().miss_puts, written + 1) << "in a batch";
  Get(kN + 1, Policy::kWaitTuned);  // tunes their bucket
  EXPECT_THAT(cache_->ListMisses({}), IsOkAndHolds(SizeIs(0)));
  EXPECT_EQ(Counter("untuned"), 5) << "what waited for its tune did not miss";
}

TEST_F(KernelMissesTest, MissesAreWrittenWhenTheCacheEnds) {
  Get(kN);
  cache_.reset();
  EXPECT_THAT(store_.ListMisses({}), IsOkAndHolds(SizeIs(1)));
}

// scenario P18: an answer in memory can be fetched after the store has evicted its bytes.
TEST_F(KernelMissesTest, AnAnswerInMemoryKeepsItsBinaryFetchable) {
  const KernelAnswer answer = Get(kN);
  const std::string sha256 = answer.kernel->variants.front().artifact->sha256;
  ASSERT_THAT(store_.QuarantineArtifact(sha256), IsOk());
  Get(kN);
  EXPECT_EQ(compiler_.calls(), 1) << "a hit";
  const auto held = cache_->FindArtifact(sha256);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(held->sha256, sha256);
  EXPECT_EQ(cache_->FindArtifact("another"), nullptr);
}

// scenario P18
TEST_F(KernelMissesTest, HitsCountAsUsesOfTheStoredBinary) {
  const KernelAnswer hot = Get(kN);
  store_.SetBytesMax(*store_.SizeBytes() + 500);
  for (int64_t n = 1; n < 40; ++n) {
    Get(kN);
    template_ = SimpleTemplate({.body = "body " + std::to_string(n)});
    Get(kN);
    template_ = SimpleTemplate();
  }
  EXPECT_GT(store_.Room().evictions, 0);
  EXPECT_THAT(store_.GetArtifactBySha256(hot.kernel->variants.front().artifact->sha256),
              IsOkAndHolds(testing::Optional(testing::_)));
}

}  // namespace
}  // namespace hone
