// The part of the contract that is about what is served of what was measured: both winners, pins,
// and measurements that are no longer trusted. Include it beside kernel_store_contract.h.
#pragma once

#include <string>
#include <utility>

#include "tests/store/kernel_store_contract.h"

namespace hone {

TEST_P(KernelStoreContract, WinnersOfBothNumericsLiveSideBySide) {
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  Winner same_bits = SampleWinner("t", "X=2", "sha-b");
  same_bits.numerics = Numerics::kSameBitsAsDefault;
  const uint64_t first = *store().PutWinner(SampleWinner("t", "X=1", "sha-a"));
  const uint64_t second = *store().PutWinner(same_bits);
  EXPECT_GT(second, first);
  Restart();
  EXPECT_EQ(
      (*store().GetWinner("t", "", Numerics::kWithinTolerance))->variants[0].config.ToString(),
      "X=1");
  const auto found = store().GetWinner("t", "digest", Numerics::kSameBitsAsDefault);
  ASSERT_THAT(found, IsOkAndHolds(testing::Optional(testing::_)));
  EXPECT_EQ((*found)->variants[0].config.ToString(), "X=2");
  EXPECT_EQ((*found)->numerics, Numerics::kSameBitsAsDefault);
  EXPECT_EQ((*found)->driver, same_bits.driver);
  EXPECT_EQ((*found)->compiler_build, same_bits.compiler_build);
  EXPECT_EQ(*store().PutWinner(same_bits), second) << "unchanged";
}

TEST_P(KernelStoreContract, KeepsTheBitsOfAMeasurement) {
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  Measurement measurement = SampleMeasurement("X=1", {1});
  measurement.irreproducible = true;
  measurement.output_sha256.clear();
  ASSERT_THAT(store().PutMeasurement("t", measurement), IsOk());
  Restart();
  const auto found = store().GetMeasurements("t");
  ASSERT_THAT(found, IsOkAndHolds(testing::SizeIs(1)));
  EXPECT_TRUE(found->front().irreproducible);
  EXPECT_EQ(found->front().small_outputs, measurement.small_outputs);
  EXPECT_EQ(found->front().output_sha256, "");
}

TEST_P(KernelStoreContract, ReturnsAPinAsItWasStored) {
  EXPECT_THAT(store().PutPin(SamplePin("t", "X=1")),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("PutTuning")));
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  EXPECT_EQ(store().GetPin("t")->has_value(), false);
  WinnerPin pin = SamplePin("t", "XBLOCK=256 VEC=4");
  const auto generation = store().PutPin(pin);
  ASSERT_THAT(generation, IsOk());
  Restart();
  const auto found = store().GetPin("t");
  ASSERT_THAT(found, IsOkAndHolds(testing::Optional(testing::_)));
  EXPECT_EQ((*found)->config, pin.config);
  EXPECT_EQ((*found)->reason, pin.reason);
  EXPECT_EQ((*found)->artifact_sha256, pin.artifact_sha256);
  EXPECT_EQ((*found)->pinned_at_unix_ms, pin.pinned_at_unix_ms);
  EXPECT_EQ((*found)->generation, *generation);
}

TEST_P(KernelStoreContract, PinningAndUnpinningAreNewGenerations) {
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  const uint64_t won = *store().PutWinner(SampleWinner("t", "X=1", "sha"));
  const uint64_t pinned = *store().PutPin(SamplePin("t", "X=2"));
  EXPECT_GT(pinned, won);
  WinnerPin other_words = SamplePin("t", "X=2");
  other_words.reason = "in other words";
  EXPECT_EQ(*store().PutPin(other_words), pinned) << "the same config";
  WinnerPin none{.tuning_key = "t"};
  const uint64_t unpinned = *store().PutPin(none);
  EXPECT_GT(unpinned, pinned);
  Restart();
  const auto found = store().GetPin("t");
  ASSERT_THAT(found, IsOkAndHolds(testing::Optional(testing::_)));
  EXPECT_EQ((*found)->config, std::nullopt);
  EXPECT_EQ((*found)->generation, unpinned);
}

TEST_P(KernelStoreContract, InvalidatesWhatMatchesAndKeepsIt) {
  TuningRecord other = SampleTuning("other");
  other.template_name = "copy_2d";
  other.device.sm_count = 66;
  for (const TuningRecord& record : {SampleTuning("t"), other}) {
    ASSERT_THAT(store().PutTuning(record), IsOk());
    ASSERT_THAT(store().PutMeasurement(record.key, SampleMeasurement("X=1", {1, 2, 3})), IsOk());
    Measurement newer = SampleMeasurement("X=2", {4});
    newer.driver = "590.1";
    newer.compiler_build = "13.1.5";
    ASSERT_THAT(store().PutMeasurement(record.key, newer), IsOk());
    ASSERT_THAT(store().PutMeasurement(record.key, SampleRejection("X=3", RejectionKind::kCompile)),
                IsOk());
  }
  const auto count = [&](const InvalidationFilter& filter, bool dry_run = true) {
    const auto found = store().InvalidateMeasurements(filter, "because", dry_run);
    EXPECT_THAT(found, IsOk());
    return std::make_pair(found->tunings, found->measurements);
  };
  EXPECT_EQ(count({.template_name = "copy_1d"}), std::make_pair(int64_t{1}, int64_t{3}));
  EXPECT_EQ(count({.device_key = other.device.Key()}), std::make_pair(int64_t{1}, int64_t{3}));
  EXPECT_EQ(count({.driver = "590.1"}), std::make_pair(int64_t{2}, int64_t{2}));
  EXPECT_EQ(count({.compiler_build = "13.0.88"}), std::make_pair(int64_t{2}, int64_t{2}));
  EXPECT_EQ(count({.template_name = "copy_2d", .driver = "590.1"}),
            std::make_pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(count({.template_name = "softmax"}), std::make_pair(int64_t{0}, int64_t{0}));
  const auto untouched = store().GetMeasurements("t");
  ASSERT_THAT(untouched, IsOkAndHolds(testing::SizeIs(3)));
  for (const Measurement& measurement : *untouched) {
    EXPECT_EQ(measurement.invalidated, "") << "a dry run changes nothing";
  }

  EXPECT_EQ(count({.template_name = "copy_1d"}, false), std::make_pair(int64_t{1}, int64_t{3}));
  EXPECT_EQ(count({.template_name = "copy_1d"}, false), std::make_pair(int64_t{0}, int64_t{0}))
      << "already";
  Restart();
  const auto kept = store().GetMeasurements("t");
  ASSERT_THAT(kept, IsOkAndHolds(testing::SizeIs(3)));
  for (const Measurement& measurement : *kept) EXPECT_EQ(measurement.invalidated, "because");
  EXPECT_THAT(kept->front().samples_ns, testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(store().GetMeasurements("other")->front().invalidated, "");
  ASSERT_THAT(store().PutMeasurement("t", SampleMeasurement("X=1", {5})), IsOk());
  EXPECT_EQ(store().GetMeasurements("t")->front().invalidated, "") << "measured anew";
}

TEST_P(KernelStoreContract, InvalidationSparesThePinnedConfig) {
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  for (const char* config : {"X=1", "X=2"}) {
    ASSERT_THAT(store().PutMeasurement("t", SampleMeasurement(config, {1})), IsOk());
  }
  // A point that the template's own constraint excludes was never measured.
  ASSERT_THAT(store().PutMeasurement("t", SampleRejection("X=3", RejectionKind::kConstraint)),
              IsOk());
  ASSERT_THAT(store().PutPin(SamplePin("t", "X=2")), IsOk());
  const auto count = store().InvalidateMeasurements({.template_name = "copy_1d"}, "why", false);
  ASSERT_THAT(count, IsOk());
  EXPECT_EQ(count->measurements, 1);
  EXPECT_EQ(count->pins_spared, 1);
  const auto found = store().GetMeasurements("t");
  EXPECT_EQ((*found)[0].invalidated, "why");
  EXPECT_EQ((*found)[1].invalidated, "");
}

}  // namespace hone
