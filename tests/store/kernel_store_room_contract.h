// The part of KernelStoreContract about misses and about the bound on a store's size. Include it
// beside kernel_store_contract.h.
#pragma once

#include <string>

#include "tests/store/kernel_store_contract.h"

namespace hone {

// scenario P35
TEST_P(KernelStoreContract, MissesOfTwoDevicesAreTwo) {
  Miss here = SampleMiss("n=1");
  Miss there = here;
  there.tuning_key = "the key on another device";
  ASSERT_THAT(store().RecordMisses({here, there, here}), IsOk());
  const auto misses = store().ListMisses({});
  ASSERT_THAT(misses, IsOkAndHolds(testing::SizeIs(2)));
  EXPECT_EQ((*misses)[0].count, 2 * here.count);
  EXPECT_EQ((*misses)[1].tuning_key, there.tuning_key);
}

// scenario P35
TEST_P(KernelStoreContract, ListsTheMissesOfATemplateSeenSince) {
  Miss old = SampleMiss("n=1");
  old.last_at_unix_ms = 1000;
  Miss recent = SampleMiss("n=2");
  recent.last_at_unix_ms = 2000;
  Miss other = SampleMiss("n=3");
  other.template_name = "softmax";
  other.last_at_unix_ms = 2000;
  ASSERT_THAT(store().RecordMisses({old, recent, other}), IsOk());
  const auto since = store().ListMisses({.since_unix_ms = 2000});
  EXPECT_THAT(since, IsOkAndHolds(testing::SizeIs(2)));
  const auto both = store().ListMisses({.template_name = "softmax", .since_unix_ms = 1000});
  ASSERT_THAT(both, IsOkAndHolds(testing::SizeIs(1)));
  EXPECT_EQ(both->front().problem, "n=3");
}

// scenario P35
TEST_P(KernelStoreContract, WhatIsTunedSinceIsNoMiss) {
  Miss exact = SampleMiss("n=1");
  exact.tuning_key = "t";
  Miss bucket = SampleMiss("n=2");
  bucket.bucket_key = "t";
  const Miss open = SampleMiss("n=3");
  ASSERT_THAT(store().RecordMisses({exact, bucket, open}), IsOk());
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  Measurement rejected = SampleMeasurement("X=1", {1000});
  rejected.rejection = Rejection{.kind = RejectionKind::kTimeout};
  ASSERT_THAT(store().PutMeasurement("t", rejected), IsOk());
  EXPECT_THAT(store().ListMisses({}), IsOkAndHolds(testing::SizeIs(3))) << "nothing is timed yet";
  // Whether or not the tune came to its end: it is answered as tuned from here on.
  ASSERT_THAT(store().PutMeasurement("t", SampleMeasurement("X=2", {1000})), IsOk());
  const auto misses = store().ListMisses({});
  ASSERT_THAT(misses, IsOkAndHolds(testing::SizeIs(1)));
  EXPECT_EQ(misses->front().problem, "n=3");
}

// scenario P18
TEST_P(KernelStoreContract, WithinItsBoundAStoreKeepsWhatWasUsedLast) {
  constexpr int64_t kBound = 8 << 20;
  Bound(kBound);
  PutLarge("read");
  const std::string noted = PutLarge("noted");
  PutLarge("unused");
  for (int i = 0; i < 60; ++i) {
    PutLarge("new" + std::to_string(i));
    EXPECT_TRUE(Has("read")) << i;
    store().NoteUse(noted);
    EXPECT_LE(*store().SizeBytes(), kBound + (512 << 10)) << i;
  }
  EXPECT_FALSE(Has("unused"));
  EXPECT_FALSE(Has("new0"));
  EXPECT_TRUE(Has("new59"));
  EXPECT_TRUE(Has("noted"));
  const StoreRoom room = store().Room();
  EXPECT_EQ(room.bytes_max, kBound);
  EXPECT_GE(room.evictions, 30);
  EXPECT_GE(room.evicted_bytes, room.evictions * (256 << 10));
  EXPECT_FALSE(room.exhausted);
}

// scenario P18
TEST_P(KernelStoreContract, WinnersOfEveryVariantAreSpared) {
  Bound(8 << 20);
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  Winner winner = SampleWinner("t", "X=1", PutLarge("winner"));
  winner.variants.push_back({*Config::Parse("X=2"), PutLarge("fallback")});
  ASSERT_THAT(store().PutWinner(winner), IsOk());
  for (int i = 0; i < 60; ++i) PutLarge("new" + std::to_string(i));
  EXPECT_TRUE(Has("winner"));
  EXPECT_TRUE(Has("fallback"));
  EXPECT_FALSE(Has("new0"));
}

// scenario P18
TEST_P(KernelStoreContract, WhatIsHeldIsSparedUntilItIsLetGo) {
  Bound(8 << 20);
  auto held = store().Hold(PutLarge("held"));
  store().Hold(PutLarge("held")).reset();  // a second holder leaves first
  for (int i = 0; i < 60; ++i) PutLarge("new" + std::to_string(i));
  EXPECT_TRUE(Has("held"));
  held.reset();
  for (int i = 60; i < 120; ++i) PutLarge("new" + std::to_string(i));
  EXPECT_FALSE(Has("held"));
}

// scenario P18
TEST_P(KernelStoreContract, ABoundFullOfWinnersRefusesMoreAndKeepsThem) {
  Bound(4 << 20);
  absl::Status status;
  int winners = 0;
  for (; status.ok() && winners < 100; ++winners) {
    const std::string name = "winner" + std::to_string(winners);
    const Artifact artifact = SampleArtifact(name + std::string(256 << 10, 'k'));
    status = store().PutArtifact(SampleKey(name), artifact);
    if (!status.ok()) break;
    ASSERT_THAT(store().PutTuning(SampleTuning(name)), IsOk());
    ASSERT_THAT(store().PutWinner(SampleWinner(name, "X=1", artifact.sha256)), IsOk());
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               testing::HasSubstr(std::to_string(4 << 20))));
  EXPECT_GE(winners, 10);
  for (int i = 0; i < winners; ++i) EXPECT_TRUE(Has("winner" + std::to_string(i))) << i;
  EXPECT_TRUE(store().Room().exhausted);
  EXPECT_EQ(store().Room().evictions, 0);
  // Measurements are small, and are kept.
  EXPECT_THAT(store().PutMeasurement("winner0", SampleMeasurement("X=1", {1})), IsOk());
}

}  // namespace hone
