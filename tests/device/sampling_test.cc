// What a sample is: flushed or not, one launch or a sequence, pristine buffers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "runtime/device/device_profiler.h"
#include "tests/device/profile_fixtures.h"
#include "tests/testing/fake_device.h"

namespace hone {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

float FirstFloat(const FakeLaunch& launch) {
  float value;
  std::memcpy(&value, reinterpret_cast<const void*>(launch.argument<uint64_t>(0)), sizeof(value));
  return value;
}

// x[0] *= 1.5
void ScaleFirst(const FakeLaunch& launch) {
  const float value = FirstFloat(launch) * 1.5f;
  std::memcpy(reinterpret_cast<void*>(launch.argument<uint64_t>(0)), &value, sizeof(value));
}

class SamplingTest : public testing::Test {
 protected:
  SamplingTest() {
    device_.SetKernel("copy_1d", [this](const FakeLaunch& launch) {
      destinations_.push_back(launch.argument<uint64_t>(0));
      FakeDevice::Copy(4)(launch);
    });
    device_.SetKernel("copy_1d_reference", FakeDevice::Copy(4));
    device_.SetKernel("scale_1d", [this](const FakeLaunch& launch) {
      seen_.push_back(FirstFloat(launch));
      ScaleFirst(launch);
    });
    device_.SetKernel("scale_1d_reference", ScaleFirst);
  }

  void Begin(const ProfileProblem& problem) {
    const absl::Status status = profiler_.Begin(problem);
    ASSERT_TRUE(status.ok()) << status;
  }
  void Check(const ProfileCandidate& candidate) {
    const auto result = profiler_.Check(candidate);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_FALSE(result->rejection) << result->rejection->detail;
    destinations_.clear();
    seen_.clear();
  }
  std::vector<double> Sample(int64_t id, int count) {
    const auto result = profiler_.Sample(id, count);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->samples_ns : std::vector<double>();
  }
  std::set<uint64_t> Destinations() const { return {destinations_.begin(), destinations_.end()}; }

  FakeDevice device_;
  DeviceProfiler profiler_{&device_};
  std::vector<uint64_t> destinations_;
  std::vector<float> seen_;
};

TEST_F(SamplingTest, ColdSamplesFlushTheCacheAndWarmOnesDoNot) {
  ProfileProblem problem = CopyProblem(1024);
  Begin(problem);
  Check(CopyCandidate(1, 256, {}));
  EXPECT_TRUE(profiler_.Sample(1, 5).ok());
  EXPECT_EQ(device_.flushes(), 5);
  problem.policy.cache = MeasuringPolicy::Cache::kWarm;
  Begin(problem);
  Check(CopyCandidate(1, 256, {}));
  EXPECT_TRUE(profiler_.Sample(1, 5).ok());
  EXPECT_EQ(device_.flushes(), 5);
}

TEST_F(SamplingTest, SamplesAreTheDevicesOwnTimes) {
  device_.SetTiming("<float, 256>", {12'000, 11'000});
  Begin(CopyProblem(1024));
  Check(CopyCandidate(1, 256, {}));
  const auto result = profiler_.Sample(1, 3);
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result->samples_ns, ElementsAre(12'000, 11'000, 12'000));
  EXPECT_EQ(result->clock_mhz, 1980);
}

// scenario P28
TEST_F(SamplingTest, ReadWriteBuffersStartPristineInEveryRepetition) {
  for (const bool sequences : {false, true}) {
    if (sequences) device_.MakeSequences();
    Begin(ScaleProblem(1024));
    for (int64_t id = 1; id <= 3; ++id) {
      Check(ScaleCandidate(id, 64 << id, {}));
      EXPECT_THAT(Sample(id, 50), SizeIs(50));
      ASSERT_GE(seen_.size(), sequences ? 50u * 20 : 50u);
      EXPECT_THAT(seen_, Each(testing::Eq(seen_[0])));
    }
  }
}

TEST_F(SamplingTest, ShortKernelsAreTimedInSequencesOnBuffersOfTheirOwn) {
  device_.MakeSequences();
  device_.SetTiming("<float, 256>", {2'000, 4'000});
  Begin(CopyProblem(1024));
  Check(CopyCandidate(1, 256, {}));
  // After an untimed launch and a single one: 20 launches a sample, so both times alike.
  EXPECT_THAT(Sample(1, 3), ElementsAre(3'000, 3'000, 3'000));
  EXPECT_THAT(Destinations(), SizeIs(20));
  EXPECT_THAT(destinations_, SizeIs(2 + 3 * 20));
}

TEST_F(SamplingTest, WarmSequencesStayOnOneSetUnlessItIsWrittenInPlace) {
  device_.MakeSequences();
  ProfileProblem problem = CopyProblem(1024);
  problem.policy.cache = MeasuringPolicy::Cache::kWarm;
  Begin(problem);
  Check(CopyCandidate(1, 256, {}));
  Sample(1, 2);
  EXPECT_THAT(destinations_, SizeIs(2 + 2 * 20));
  EXPECT_THAT(Destinations(), SizeIs(1));

  problem = ScaleProblem(1024);
  problem.policy.cache = MeasuringPolicy::Cache::kWarm;
  Begin(problem);
  Check(ScaleCandidate(1, 256, {}));
  EXPECT_THAT(Sample(1, 5), SizeIs(5));
  EXPECT_THAT(seen_, Each(testing::Eq(seen_[0])));
  EXPECT_EQ(device_.flushes(), 0);
}

TEST_F(SamplingTest, RotatingLaunchesTakeTurnsOnTheirBuffersWithoutAFlush) {
  ProfileProblem problem = CopyProblem(1024);
  problem.policy.cache = MeasuringPolicy::Cache::kRotating;
  Begin(problem);
  Check(CopyCandidate(1, 256, {}));
  EXPECT_THAT(Sample(1, 6), SizeIs(6));
  EXPECT_THAT(Destinations(), SizeIs(3));
  for (size_t i = 2; i < destinations_.size(); ++i) {
    EXPECT_NE(destinations_[i], destinations_[i - 1]);
  }
  EXPECT_EQ(device_.flushes(), 0);
}

TEST_F(SamplingTest, ASlowCandidateOfAShortProblemIsTimedByItself) {
  device_.MakeSequences();
  device_.SetTiming("<float, 256>", {2e6});
  Begin(CopyProblem(1024));
  Check(CopyCandidate(1, 256, {}));
  EXPECT_THAT(Sample(1, 2), ElementsAre(2e6, 2e6));
  EXPECT_THAT(Destinations(), SizeIs(1));
}

TEST_F(SamplingTest, ProblemsLongEnoughForEventsAreTimedOneLaunchAtATime) {
  device_.MakeSequences();
  ProfileProblem problem = CopyProblem(1024);
  // 200 MB take more than 30 us at any H200's bandwidth.
  problem.arguments.work_bytes = Expression::Constant(200'000'000);
  Begin(problem);
  Check(CopyCandidate(1, 256, {}));
  Sample(1, 3);
  EXPECT_THAT(Destinations(), SizeIs(1));
}

TEST_F(SamplingTest, WithoutMemoryForMoreBuffersLaunchesAreTimedOneByOne) {
  device_.MakeSequences();
  ProfileProblem problem = CopyProblem(1 << 20);
  problem.memory_bytes_max = 32 << 20;
  Begin(problem);
  Check(CopyCandidate(1, 256, {}));
  EXPECT_THAT(Sample(1, 3), SizeIs(3));
  EXPECT_THAT(Destinations(), SizeIs(1));
}

TEST_F(SamplingTest, DamageAroundAnyOfTheBuffersOfASequenceIsFound) {
  device_.MakeSequences();
  Begin(CopyProblem(1024));
  Check(CopyCandidate(1, 256, {}));
  std::set<uint64_t> seen;
  device_.SetKernel("copy_1d", [&seen](const FakeLaunch& launch) {
    FakeDevice::Copy(4)(launch);
    const uint64_t dst = launch.argument<uint64_t>(0);
    seen.insert(dst);
    if (seen.size() >= 10) reinterpret_cast<char*>(dst)[4096] = 1;
  });
  const auto result = profiler_.Sample(1, 1);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->rejection);
  EXPECT_THAT(result->rejection->detail, testing::HasSubstr("wrote beyond dst at n=1024"));
}

}  // namespace
}  // namespace hone
