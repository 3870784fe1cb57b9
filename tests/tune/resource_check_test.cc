#include "runtime/tune/resource_check.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

// Limits of an H200.
DeviceLimits Limits() {
  return {.max_threads_per_block = 1024,
          .shared_bytes_per_block_max = 232'448,
          .shared_bytes_per_sm = 233'472,
          .registers_per_block = 65'536,
          .max_cluster_size = 8,
          .warp_size = 32};
}

Artifact Entry(EntryResources resources) {
  Artifact artifact;
  resources.symbol = "k";
  artifact.resources = {resources};
  return artifact;
}

ResolvedLaunch Launch(uint32_t threads, uint32_t dynamic_shared_bytes, uint32_t cluster = 1) {
  ResolvedStep step;
  step.symbol = "k";
  step.block = {threads, 1, 1};
  step.cluster = {cluster, 1, 1};
  step.dynamic_shared_bytes = dynamic_shared_bytes;
  ResolvedLaunch launch;
  launch.steps = {step};
  return launch;
}

TEST(ResourceCheckTest, WhatFitsPasses) {
  EXPECT_FALSE(CheckResources(Entry({.registers = 64}), Launch(1024, 232'448), Limits()));
}

// scenario P24
TEST(ResourceCheckTest, SharedMemoryOverTheLimitNamesNeededAndLimit) {
  const auto rejection = CheckResources(Entry({}), Launch(128, 233'472), Limits());
  ASSERT_TRUE(rejection.has_value());
  EXPECT_EQ(rejection->kind, RejectionKind::kResources);
  EXPECT_EQ(rejection->needed, 233'472);
  EXPECT_EQ(rejection->limit, 232'448);
  EXPECT_EQ(rejection->detail, "bytes of shared memory per block: needs 233472, limit 232448");
}

TEST(ResourceCheckTest, StaticSharedMemoryCountsToo) {
  EXPECT_TRUE(CheckResources(Entry({.static_shared_bytes = 1024}), Launch(128, 232'000), Limits()));
}

TEST(ResourceCheckTest, ThreadsBeyondTheLaunchBoundsAreRejected) {
  EXPECT_TRUE(CheckResources(Entry({.max_threads_per_block = 256}), Launch(512, 0), Limits()));
}

TEST(ResourceCheckTest, RegistersAreCountedByWholeWarps) {
  EXPECT_FALSE(CheckResources(Entry({.registers = 64}), Launch(1024, 0), Limits()));
  EXPECT_TRUE(CheckResources(Entry({.registers = 65}), Launch(1024, 0), Limits()));
}

TEST(ResourceCheckTest, ClustersBeyondTheDevicesAreRejected) {
  EXPECT_TRUE(CheckResources(Entry({}), Launch(128, 0, 16), Limits()));
}

}  // namespace
}  // namespace hone
