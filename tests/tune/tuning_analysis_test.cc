#include "runtime/tune/tuning_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// An H200's, roughly.
DeviceCeilings Ceilings() {
  DeviceCeilings ceilings;
  ceilings.ceilings = {{"copy", 4300, "GB/s", ""},
                       {"f32", 60, "TFLOP/s", ""},
                       {"mma_sync_bf16", 620, "TFLOP/s", ""},
                       {"wgmma_bf16", 930, "TFLOP/s", ""},
                       {"launch", 1500, "ns", ""}};
  return ceilings;
}

std::vector<std::string> Names(const Roofline& roofline) {
  std::vector<std::string> names;
  for (const CeilingShare& share : roofline.shares) names.push_back(share.ceiling.name);
  return names;
}

Measurement Timed(const std::string& config, double ns) {
  Measurement measurement;
  measurement.config = *Config::Parse(config);
  measurement.samples_ns = {ns, ns, ns};
  measurement.verified = true;
  Summarise(measurement);
  return measurement;
}

Measurement Rejected(const std::string& config, RejectionKind kind) {
  Measurement measurement;
  measurement.config = *Config::Parse(config);
  measurement.rejection = Rejection{.kind = kind, .detail = "scripted"};
  return measurement;
}

TEST(RooflineTest, ACopyNearTheCopyCeilingIsBoundByMemory) {
  const Workload copy{.bytes = 430'000'000};
  const Roofline roofline = PlaceUnderCeilings(110e3, copy, Ceilings());
  EXPECT_THAT(Names(roofline), ElementsAre("copy", "launch"));
  EXPECT_NEAR(roofline.shares[0].least_ns, 100e3, 1);
  EXPECT_NEAR(roofline.shares[0].share, 100.0 / 110, 1e-6);
  EXPECT_NEAR(roofline.shares[0].achieved, 4300 * 100.0 / 110, 1e-3);
  EXPECT_EQ(roofline.bound, Bound::kMemory);
  EXPECT_THAT(roofline.reason, HasSubstr("90.9 %"));
  EXPECT_NEAR(roofline.least_ns, 100e3, 1);
}

// A copy in the wrong order: far from the ceiling of the bytes that have to move, and not for want
// of anything else that is known.
TEST(RooflineTest, AKernelFarFromEveryCeilingIsSaidToBeBoundByNone) {
  const Roofline roofline =
      PlaceUnderCeilings(900e3, {.bytes = 430'000'000, .flops = 100}, Ceilings());
  EXPECT_THAT(Names(roofline), ElementsAre("copy", "f32", "launch"));
  EXPECT_EQ(roofline.bound, Bound::kNone);
  EXPECT_THAT(roofline.reason, HasSubstr("11.1 % of copy"));
  EXPECT_THAT(roofline.reason, HasSubstr("partly used sectors"));
  EXPECT_NEAR(roofline.least_ns, 100e3, 1);
}

TEST(RooflineTest, AMatrixProductIsHeldAgainstTheInstructionItUses) {
  const int64_t n = 4096;
  const Workload product{
      .bytes = 3 * n * n * 2, .flops = 2 * n * n * n, .matrix_type = "bf16", .wgmma = false};
  const Roofline roofline = PlaceUnderCeilings(240e3, product, Ceilings());
  EXPECT_THAT(Names(roofline), ElementsAre("copy", "mma_sync_bf16", "wgmma_bf16", "launch"));
  EXPECT_FALSE(roofline.shares[1].of_another_instruction);
  EXPECT_TRUE(roofline.shares[2].of_another_instruction);
  EXPECT_NEAR(roofline.shares[1].achieved, 572.7, 0.1);
  EXPECT_EQ(roofline.bound, Bound::kArithmetic);
  EXPECT_THAT(roofline.reason, HasSubstr("mma_sync_bf16"));
  // What the device could do bounds what is left to gain.
  EXPECT_EQ(roofline.least_ns, roofline.shares[2].least_ns);
}

TEST(RooflineTest, AWgmmaKernelIsNotHeldAgainstMmaSync) {
  const Workload product{
      .bytes = 1, .flops = 2'000'000'000'000, .matrix_type = "bf16", .wgmma = true};
  const Roofline roofline = PlaceUnderCeilings(4e6, product, Ceilings());
  EXPECT_THAT(Names(roofline), ElementsAre("copy", "wgmma_bf16", "launch"));
  // 54 % of its ceiling would be 81 % of the other's.
  EXPECT_EQ(roofline.bound, Bound::kNone);
}

TEST(RooflineTest, AKernelThatTakesLittleLongerThanAnEmptyOneIsBoundByLaunch) {
  const Roofline roofline = PlaceUnderCeilings(2000, {.bytes = 8192}, Ceilings());
  EXPECT_EQ(roofline.bound, Bound::kLaunch);
  EXPECT_NEAR(roofline.least_ns, 1500, 1e-9);
}

TEST(RooflineTest, WithoutWorkOrCeilingsNothingIsClaimed) {
  EXPECT_EQ(PlaceUnderCeilings(1e6, {}, Ceilings()).bound, Bound::kUnknown);
  EXPECT_EQ(PlaceUnderCeilings(1e6, {.bytes = 1 << 20}, DeviceCeilings()).bound, Bound::kUnknown);
  EXPECT_EQ(PlaceUnderCeilings(1e6, {}, Ceilings()).least_ns, 0);
}

TEST(TunableEffectsTest, WhatMattersMostComesFirst) {
  // ORDER costs a factor of 5, VEC of 1.1.
  const std::vector<Measurement> measurements = {
      Timed("VEC=1 ORDER=0", 110), Timed("VEC=4 ORDER=0", 100), Timed("VEC=1 ORDER=1", 550),
      Timed("VEC=4 ORDER=1", 500)};
  const auto effects = TunableEffects(measurements, measurements[1]);
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_EQ(effects[0].name, "ORDER");
  EXPECT_NEAR(effects[0].matters, 5, 1e-9);
  EXPECT_EQ(effects[0].groups, 2);
  EXPECT_EQ(effects[1].name, "VEC");
  EXPECT_NEAR(effects[1].matters, 1.1, 1e-9);
  ASSERT_EQ(effects[0].values.size(), 2u);
  EXPECT_EQ(effects[0].values[1].value, 1);
  EXPECT_NEAR(effects[0].values[1].best_ratio, 5, 1e-9);
  EXPECT_NEAR(effects[0].values[1].mean_ratio, 5 * std::sqrt(1.1), 1e-9);
  EXPECT_NEAR(effects[0].values[0].best_ratio, 1, 1e-9);
}

// VEC=8 exists only with the slow ORDER: its mean says it is slow, the comparison of like with like
// that it is not.
TEST(TunableEffectsTest, HolesInTheSpaceDoNotMakeATunableLookImportant) {
  const std::vector<Measurement> measurements = {
      Timed("VEC=4 ORDER=0", 100), Timed("VEC=4 ORDER=1", 500), Timed("VEC=8 ORDER=1", 500),
      Rejected("VEC=8 ORDER=0", RejectionKind::kConstraint),
      Rejected("VEC=2 ORDER=0", RejectionKind::kCompile)};
  const auto effects = TunableEffects(measurements, measurements[0]);
  EXPECT_EQ(effects[1].name, "VEC");
  EXPECT_NEAR(effects[1].matters, 1, 1e-9);
  ASSERT_EQ(effects[1].values.size(), 3u);
  EXPECT_EQ(effects[1].values[0].rejected, 1);  // VEC=2, whose compile failed
  EXPECT_EQ(effects[1].values[0].best_ratio, 0);
  EXPECT_EQ(effects[1].values[2].rejected, 0) << "a constraint is no failure";
}

TEST(TunableEffectsTest, ATunableThatNeverVariedAloneIsUnknown) {
  const std::vector<Measurement> measurements = {Timed("A=1 B=1", 100), Timed("A=2 B=2", 200)};
  const auto effects = TunableEffects(measurements, measurements[0]);
  EXPECT_EQ(effects[0].groups, 0);
  EXPECT_EQ(effects[0].matters, 0);
}

TEST(SubjectTest, PartOfAConfigMeansTheFastestThatHasIt) {
  const std::vector<Measurement> measurements = {
      Timed("VEC=4 ORDER=0", 100), Timed("VEC=1 ORDER=1", 550), Timed("VEC=4 ORDER=1", 500),
      Rejected("VEC=8 ORDER=1", RejectionKind::kLaunch)};
  EXPECT_EQ(FastestWith(measurements, *Config::Parse("ORDER=1")), &measurements[2]);
  EXPECT_EQ(FastestWith(measurements, *Config::Parse("VEC=1 ORDER=1")), &measurements[1]);
  EXPECT_EQ(FastestWith(measurements, *Config::Parse("VEC=8")), nullptr);
  EXPECT_EQ(FastestWith(measurements, *Config::Parse("WAYS=2")), nullptr);
  EXPECT_EQ(RunnerUpTo(measurements, measurements[0]), &measurements[2]);
  EXPECT_EQ(RunnerUpTo({Timed("A=1", 5)}, Timed("A=1", 5)), nullptr);
}

}  // namespace
}  // namespace hone
