#include "runtime/compile/device_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace hone {
namespace {

using testing::ElementsAre;

// Knows some architectures and compiles nothing.
class Knowing : public Compiler {
 public:
  explicit Knowing(std::vector<std::string> architectures)
      : architectures_(std::move(architectures)) {}
  absl::StatusOr<CompileOutcome> Compile(const Program&, const CompileOptions&) override {
    return absl::UnimplementedError("not asked for");
  }
  int parallelism() const override { return 1; }
  std::vector<CompilerInfo> Compilers() const override { return {}; }
  absl::StatusOr<CompilerInfo> Select(const std::string& architecture, int) const override {
    if (std::find(architectures_.begin(), architectures_.end(), architecture) ==
        architectures_.end()) {
      return absl::InvalidArgumentError(architecture);
    }
    return CompilerInfo();
  }

 private:
  const std::vector<std::string> architectures_;
};

TEST(DeviceTargetTest, TargetsGoFromTheDevicesOwnToPlainOnesOfItsMajorVersion) {
  EXPECT_THAT(TargetsFor("sm_90a"), ElementsAre("sm_90a", "sm_90"));
  EXPECT_THAT(TargetsFor("sm_103a"),
              ElementsAre("sm_103a", "sm_103f", "sm_103", "sm_102", "sm_100"));
  EXPECT_THAT(TargetsFor("sm_82"), ElementsAre("sm_82", "sm_81", "sm_80"));
  EXPECT_THAT(TargetsFor("cpu"), ElementsAre("cpu"));
}

TEST(DeviceTargetTest, EmbeddedChipsShareNoBinaries) {
  EXPECT_THAT(TargetsFor("sm_87"), ElementsAre("sm_87"));
  EXPECT_THAT(TargetsFor("sm_89"), testing::Not(testing::Contains("sm_87")));
}

// scenario P04
TEST(DeviceTargetTest, AnNvrtcOlderThanTheDeviceMakesWhatTheDeviceStillRuns) {
  const Knowing nvrtc({"sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_101a", "sm_120a"});
  EXPECT_EQ(DeviceTarget(nvrtc, "sm_90a", 13000), "sm_90a");
  EXPECT_EQ(DeviceTarget(nvrtc, "sm_103a", 13000), "sm_100");
  EXPECT_EQ(DeviceTarget(nvrtc, "sm_86", 13000), "sm_80");
  EXPECT_EQ(DeviceTarget(Knowing({"sm_90"}), "sm_90a", 13000), "sm_90");
}

TEST(DeviceTargetTest, WhatNobodyMakesIsStillAskedForByItsOwnName) {
  EXPECT_EQ(DeviceTarget(Knowing({"sm_90a"}), "sm_130a", 13000), "sm_130a");
}

}  // namespace
}  // namespace hone
