#include "runtime/kernel/measurement.h"

#include <gtest/gtest.h>

#include "runtime/launch/device_fingerprint.h"

namespace hone {
namespace {

Measurement Samples(std::vector<double> samples) {
  Measurement measurement;
  measurement.samples_ns = std::move(samples);
  Summarise(measurement);
  return measurement;
}

TEST(SummariseTest, MedianAndSpreadInterpolateBetweenOrderStatistics) {
  EXPECT_DOUBLE_EQ(Samples({30, 10, 20}).median_ns, 20);
  EXPECT_DOUBLE_EQ(Samples({40, 10, 20, 30}).median_ns, 25);
  // Quartiles 17.5 and 32.5.
  EXPECT_DOUBLE_EQ(Samples({40, 10, 20, 30}).spread, 7.5 / 25);
  EXPECT_DOUBLE_EQ(Samples({5}).median_ns, 5);
  EXPECT_DOUBLE_EQ(Samples({5}).spread, 0);
}

TEST(SummariseTest, WithoutSamplesThereIsNothing) {
  Measurement measurement;
  measurement.median_ns = 1;
  measurement.spread = 1;
  Summarise(measurement);
  EXPECT_EQ(measurement.median_ns, 0);
  EXPECT_EQ(measurement.spread, 0);
}

TEST(SummariseTest, OneOutlierMovesNeitherMedianNorSpreadMuch) {
  const Measurement calm = Samples({10, 10, 11, 11, 12, 12, 13});
  const Measurement hit = Samples({10, 10, 11, 11, 12, 12, 1e9});
  EXPECT_EQ(calm.median_ns, hit.median_ns);
  EXPECT_EQ(calm.spread, hit.spread);
}

TEST(RejectionKindTest, NamesAreTheDocumentedOnesAndOnlyMomentsExpire) {
  EXPECT_EQ(Name(RejectionKind::kIllegalAccess), "illegal_access");
  EXPECT_EQ(Name(RejectionKind::kWrongResult), "wrong_result");
  EXPECT_TRUE(Expires(RejectionKind::kTimeout));
  EXPECT_TRUE(Expires(RejectionKind::kCrash));
  EXPECT_TRUE(Expires(RejectionKind::kUnstable));
  EXPECT_FALSE(Expires(RejectionKind::kWrongResult));
  EXPECT_FALSE(Expires(RejectionKind::kResources));
  EXPECT_FALSE(Expires(RejectionKind::kConstraint));
}

// scenarios P33 P34
TEST(DeviceFingerprintTest, NamesDoNotSplitDevicesAndSlicesDo) {
  DeviceInfo a;
  a.name = "NVIDIA H200";
  a.fingerprint = {.kind = "cuda", .architecture = "sm_90a", .sm_count = 132, .slice = {}};
  DeviceInfo b = a;
  b.name = "NVIDIA H200 NVL";
  b.index = 3;
  b.driver = "other";
  EXPECT_EQ(a.fingerprint.Key(), b.fingerprint.Key());
  DeviceInfo fewer = a;
  fewer.fingerprint.sm_count = 46;
  EXPECT_NE(a.fingerprint.Key(), fewer.fingerprint.Key());
  DeviceInfo slice = a;
  slice.fingerprint.slice = "1g.18gb";
  EXPECT_NE(a.fingerprint.Key(), slice.fingerprint.Key());
}

TEST(DeviceFingerprintTest, FactsAreWhatExpressionsMayUse) {
  DeviceInfo device;
  device.fingerprint.sm_count = 132;
  device.limits.shared_bytes_per_block_max = 232448;
  const DeviceFacts facts = device.Facts();
  EXPECT_EQ(facts.at("device.sm_count"), 132);
  EXPECT_EQ(facts.at("device.shared_bytes_per_block_max"), 232448);
  for (const auto& [name, value] : facts) EXPECT_TRUE(IsDeviceFact(name));
  EXPECT_FALSE(IsDeviceFact("device.name"));
}

TEST(StaleReasonTest, NamesWhatDiffersAndOnlyWhatIsKnown) {
  Measurement measurement;
  measurement.driver = "570.1";
  measurement.compiler_build = "nvrtc 12.9.86";
  EXPECT_EQ(StaleReason(measurement, {}), "");
  EXPECT_EQ(StaleReason(measurement, {"570.1", "nvrtc 12.9.86"}), "");
  EXPECT_EQ(StaleReason(measurement, {"580.2", ""}), "measured under driver 570.1, now 580.2");
  EXPECT_EQ(StaleReason(measurement, {"570.1", "nvrtc 13.0.88"}),
            "built by nvrtc 12.9.86, now nvrtc 13.0.88");
  measurement.invalidated = "2026-11-30: bad cooling";
  EXPECT_EQ(StaleReason(measurement, {}), "invalidated 2026-11-30: bad cooling");
}

TEST(StaleReasonTest, PrebuiltBinariesAreOfNoCompilerOfOurs) {
  Measurement measurement;
  measurement.compiler_build = "prebuilt";
  EXPECT_EQ(StaleReason(measurement, {"", "nvrtc 13.0.88"}), "");
}

TEST(SameBitsTest, ComparesTheSizesThatBothWereCheckedAt) {
  Measurement a, b;
  EXPECT_FALSE(SameBits(a, b)) << "nothing is known";
  a.output_sha256 = b.output_sha256 = "tuned";
  EXPECT_TRUE(SameBits(a, b));
  a.small_outputs = {{"n=1", "x"}, {"n=7", "y"}};
  b.small_outputs = {{"n=1", "x"}, {"n=9", "z"}};
  EXPECT_TRUE(SameBits(a, b));
  b.small_outputs["n=7"] = "other";
  EXPECT_FALSE(SameBits(a, b));
  EXPECT_FALSE(SameBits(b, a));
}

}  // namespace
}  // namespace hone
