#include "runtime/worker/measure_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/launch/recipe_proto.h"
#include "tests/device/profile_fixtures.h"
#include "tests/testing/fake_profiler.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MeasureConvertTest, DevicesKeepEveryFactAndSoTheirKey) {
  DeviceInfo info = FakeDeviceInfo();
  info.index = 3;
  info.fingerprint.slice = "MIG 1g.18gb";
  const DeviceInfo back = FromWire(ToWire(info));
  EXPECT_EQ(back.fingerprint.Key(), info.fingerprint.Key());
  EXPECT_EQ(back.Facts(), info.Facts());
  EXPECT_EQ(back.index, 3);
  EXPECT_EQ(back.name, info.name);
  EXPECT_EQ(back.architecture, info.architecture);
  EXPECT_EQ(back.driver_version, info.driver_version);
  EXPECT_EQ(back.driver, info.driver);
  EXPECT_EQ(back.limits.max_cluster_size, info.limits.max_cluster_size);
  EXPECT_EQ(back.limits.registers_per_block, info.limits.registers_per_block);
  EXPECT_EQ(back.limits.shared_bytes_per_sm, info.limits.shared_bytes_per_sm);
}

TEST(MeasureConvertTest, ProblemsSurviveTheTrip) {
  ProfileProblem problem = CopyProblem(4096);
  problem.check.inits = {{.argument = "src",
                          .kind = InitKind::kOffsets,
                          .low = Expression::Constant(-1),
                          .high = *Expression::Parse("n * 2"),
                          .skew = 1.5,
                          .generator = {}},
                         {.argument = "other",
                          .kind = InitKind::kGenerator,
                          .low = {},
                          .high = {},
                          .skew = 0,
                          .generator = problem.arguments}};
  problem.check.scalar_samples = {{"eps", 1e-6}};
  problem.check.references[0].outputs[0].tolerance = {.exact = false,
                                                      .atol = 0.5,
                                                      .rtol = 0.25,
                                                      .mismatch_share_max = 0.01,
                                                      .nan = NanPolicy::kNanForbidden};
  problem.check.chains = {{"dst", "silu(src)*eps", {.inputs = {"src"}, .scalars = {"eps"}}}};
  problem.policy.cache = MeasuringPolicy::Cache::kRotating;
  problem.launch_timeout = absl::Milliseconds(1500);
  problem.memory_bytes_max = 123;
  const auto back = FromWire(ToWire(problem));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->sizes, problem.sizes);
  ASSERT_EQ(back->check.inits.size(), 2u);
  EXPECT_EQ(back->check.inits[0].kind, InitKind::kOffsets);
  EXPECT_EQ(back->check.inits[0].high.ToString(), problem.check.inits[0].high.ToString());
  EXPECT_EQ(back->check.inits[0].skew, 1.5);
  EXPECT_EQ(ToProto(back->check.inits[1].generator).SerializeAsString(),
            ToProto(problem.arguments).SerializeAsString());
  EXPECT_EQ(back->check.scalar_samples, problem.check.scalar_samples);
  ASSERT_EQ(back->check.references.size(), 1u);
  const Tolerance& tolerance = back->check.references[0].outputs[0].tolerance;
  EXPECT_EQ(tolerance.atol, 0.5);
  EXPECT_EQ(tolerance.rtol, 0.25);
  EXPECT_EQ(tolerance.mismatch_share_max, 0.01);
  EXPECT_EQ(tolerance.nan, NanPolicy::kNanForbidden);
  ASSERT_EQ(back->check.chains.size(), 1u);
  EXPECT_EQ(back->check.chains[0].output, "dst");
  EXPECT_EQ(back->check.chains[0].chain, "silu(src)*eps");
  EXPECT_EQ(back->check.chains[0].names.inputs, std::vector<std::string>{"src"});
  EXPECT_EQ(back->check.chains[0].names.scalars, std::vector<std::string>{"eps"});
  EXPECT_EQ(back->check_artifact->sha256, problem.check_artifact->sha256);
  EXPECT_EQ(back->policy.ToString(), "v2 rotating");
  EXPECT_EQ(back->launch_timeout, absl::Milliseconds(1500));
  EXPECT_EQ(back->memory_bytes_max, 123);
}

TEST(MeasureConvertTest, CandidatesAndResultsSurviveTheTrip) {
  const ProfileCandidate candidate = CopyCandidate(7, 256, {255, 257});
  const auto back = FromWire(ToWire(candidate));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->id, 7);
  EXPECT_EQ(back->config, candidate.config);
  EXPECT_EQ(back->artifact.bytes, candidate.artifact.bytes);
  EXPECT_EQ(back->check_sizes, candidate.check_sizes);

  CheckResult check;
  check.verified = true;
  check.verified_sizes = {"n=1", "n=2"};
  check.output_sha256 = "abc";
  check.small_outputs = {{"n=1", "12"}};
  check.irreproducible = true;
  check.rejection = Rejection{.kind = RejectionKind::kTimeout, .detail = "slow", .limit = 1000};
  const auto check_back = FromWire(ToWire(check));
  ASSERT_TRUE(check_back.ok());
  EXPECT_EQ(check_back->rejection->kind, RejectionKind::kTimeout);
  EXPECT_EQ(check_back->rejection->limit, 1000);
  EXPECT_THAT(check_back->verified_sizes, ElementsAre("n=1", "n=2"));
  EXPECT_EQ(check_back->output_sha256, "abc");
  EXPECT_EQ(check_back->small_outputs, check.small_outputs);
  EXPECT_TRUE(check_back->irreproducible);

  SampleResult sample;
  sample.samples_ns = {1.5, 2.5};
  sample.clock_mhz = 1980;
  const auto sample_back = FromWire(ToWire(sample));
  ASSERT_TRUE(sample_back.ok());
  EXPECT_THAT(sample_back->samples_ns, ElementsAre(1.5, 2.5));
  EXPECT_FALSE(sample_back->rejection);
}

TEST(MeasureConvertTest, WhatCannotBeIsRefusedByField) {
  v1::worker::BeginRequest begin = ToWire(CopyProblem(16));
  begin.add_inits()->set_kind(99);
  EXPECT_THAT(std::string(FromWire(begin).status().message()), HasSubstr("inits: unknown kind 99"));
  v1::worker::CheckRequest check = ToWire(CopyCandidate(1, 64, {}));
  check.mutable_artifact()->set_data("other bytes");
  EXPECT_EQ(FromWire(check).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace hone
