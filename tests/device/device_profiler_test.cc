#include "runtime/device/device_profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"
#include "tests/device/profile_fixtures.h"
#include "tests/testing/fake_device.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

float* Floats(uint64_t address) { return reinterpret_cast<float*>(address); }

void Scale(const FakeLaunch& launch) {
  float* const x = Floats(launch.argument<uint64_t>(0));
  for (int64_t i = 0; i < launch.argument<int64_t>(1); ++i) {
    float value;
    std::memcpy(&value, x + i, sizeof(value));
    value *= 1.5f;
    std::memcpy(x + i, &value, sizeof(value));
  }
}

class DeviceProfilerTest : public testing::Test {
 protected:
  DeviceProfilerTest() {
    device_.SetKernel("copy_1d", FakeDevice::Copy(4));
    device_.SetKernel("copy_1d_reference", FakeDevice::Copy(4));
    device_.SetKernel("scale_1d", Scale);
    device_.SetKernel("scale_1d_reference", Scale);
  }

  CheckResult Check(const ProfileCandidate& candidate) {
    auto result = profiler_.Check(candidate);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : CheckResult();
  }
  void Begin(const ProfileProblem& problem) {
    const absl::Status status = profiler_.Begin(problem);
    ASSERT_TRUE(status.ok()) << status;
  }
  static std::string Detail(const CheckResult& result) {
    return result.rejection ? result.rejection->detail : "accepted";
  }

  FakeDevice device_;
  DeviceProfiler profiler_{&device_};
};

TEST_F(DeviceProfilerTest, AcceptsARightCandidateAndNamesTheSizesItVerified) {
  Begin(CopyProblem(4096));
  const CheckResult result = Check(CopyCandidate(1, 256, {0, 255, 257, 1023}));
  EXPECT_FALSE(result.rejection) << Detail(result);
  EXPECT_TRUE(result.verified);
  EXPECT_THAT(result.verified_sizes, ElementsAre("n=4096", "n=0", "n=255", "n=257", "n=1023"));
  EXPECT_THAT(result.output_sha256, SizeIs(64));
}

TEST_F(DeviceProfilerTest, CandidatesWithEqualOutputsHaveEqualHashesWhateverTheirCheckSizes) {
  device_.SetKernel("copy_1d", [](const FakeLaunch& launch) {
    FakeDevice::Copy(4)(launch);
    // Within the tolerance, but other bits.
    if (launch.entry.find(", 512>") != std::string::npos && launch.argument<int64_t>(2) > 0) {
      Floats(launch.argument<uint64_t>(0))[0] += 1e-3f;
    }
  });
  ProfileProblem problem = CopyProblem(4096);
  problem.check.references[0].outputs[0].tolerance = Tolerance{.atol = 0.01};
  Begin(problem);
  const std::string first = Check(CopyCandidate(1, 128, {127})).output_sha256;
  EXPECT_EQ(first, Check(CopyCandidate(2, 256, {255, 257})).output_sha256);
  EXPECT_NE(first, Check(CopyCandidate(3, 512, {})).output_sha256);
}

TEST_F(DeviceProfilerTest, OutputsAtSmallSizesHaveHashesOfTheirOwn) {
  Begin(CopyProblem(4096));
  const CheckResult first = Check(CopyCandidate(1, 128, {127, 200}));
  const CheckResult second = Check(CopyCandidate(2, 256, {255, 200}));
  EXPECT_FALSE(first.irreproducible);
  ASSERT_THAT(first.small_outputs, ElementsAre(testing::Key("n=127"), testing::Key("n=200")));
  EXPECT_THAT(first.small_outputs.at("n=200"), SizeIs(16));
  EXPECT_EQ(first.small_outputs.at("n=200"), second.small_outputs.at("n=200"));
  EXPECT_NE(first.small_outputs.at("n=127"), first.small_outputs.at("n=200"));
}

TEST_F(DeviceProfilerTest, OutputsThatDifferFromLaunchToLaunchHaveNoHash) {
  int launches = 0;
  device_.SetKernel("copy_1d", [&](const FakeLaunch& launch) {
    FakeDevice::Copy(4)(launch);
    const bool shaky = launch.entry.find(", 512>") != std::string::npos;
    if (shaky) Floats(launch.argument<uint64_t>(0))[0] += 1e-4f * static_cast<float>(launches++);
  });
  ProfileProblem problem = CopyProblem(4096);
  problem.check.references[0].outputs[0].tolerance = Tolerance{.atol = 0.01};
  Begin(problem);
  const CheckResult shaky = Check(CopyCandidate(1, 512, {100}));
  EXPECT_FALSE(shaky.rejection) << Detail(shaky);
  EXPECT_TRUE(shaky.verified) << "right within the tolerance, every time";
  EXPECT_TRUE(shaky.irreproducible);
  EXPECT_EQ(shaky.output_sha256, "");
  EXPECT_THAT(shaky.small_outputs, testing::IsEmpty());
  EXPECT_FALSE(Check(CopyCandidate(2, 256, {100})).irreproducible);
}

// scenario P27
TEST_F(DeviceProfilerTest, RejectsAWrongResultWithItsPlaceAndSize) {
  device_.SetKernel("copy_1d", [](const FakeLaunch& launch) {
    FakeDevice::Copy(4)(launch);
    const int64_t n = launch.argument<int64_t>(2);
    for (int64_t i = 77; i < std::min<int64_t>(n, 89); ++i) {
      Floats(launch.argument<uint64_t>(0))[i] = 1000;
    }
  });
  Begin(CopyProblem(4096));
  const CheckResult result = Check(CopyCandidate(1, 256, {}));
  ASSERT_TRUE(result.rejection);
  EXPECT_EQ(result.rejection->kind, RejectionKind::kWrongResult);
  EXPECT_THAT(Detail(result),
              AllOf(HasSubstr("wrong result in dst at n=4096: 12 of 4096 elements, first at 77: "
                              "1000 instead of "),
                    HasSubstr("max error ")));
}

// scenario P27: the tuned size has no tail, so only the small sizes show that it is skipped.
TEST_F(DeviceProfilerTest, FindsASkippedTailBlockAtSmallSizes) {
  device_.SetKernel("copy_1d", [](const FakeLaunch& launch) {
    const int64_t n = launch.argument<int64_t>(2);
    const int64_t block = launch.step->block[0];
    if (n / block == 0) return;
    std::memcpy(Floats(launch.argument<uint64_t>(0)), Floats(launch.argument<uint64_t>(1)),
                static_cast<size_t>(n / block * block * 4));
  });
  Begin(CopyProblem(4096));
  const CheckResult result = Check(CopyCandidate(1, 256, {257}));
  ASSERT_TRUE(result.rejection);
  EXPECT_EQ(result.rejection->kind, RejectionKind::kWrongResult);
  EXPECT_THAT(Detail(result), HasSubstr("wrong result in dst at n=257: 1 of 257 elements, first at "
                                        "256: not written instead of "));
}

// scenario P25
TEST_F(DeviceProfilerTest, FindsAWriteBeyondABufferByItsGuardZone) {
  device_.WriteOutOfBoundsFor("<float, 512>", 4096 * 4);
  Begin(CopyProblem(4096));
  const CheckResult bad = Check(CopyCandidate(1, 512, {}));
  ASSERT_TRUE(bad.rejection);
  EXPECT_EQ(bad.rejection->kind, RejectionKind::kIllegalAccess);
  EXPECT_EQ(Detail(bad), "wrote beyond dst at n=4096: byte 16384, it has 16384");
  // The damage is not held against the next one.
  EXPECT_FALSE(Check(CopyCandidate(2, 256, {255})).rejection);
}

TEST_F(DeviceProfilerTest, FindsAWriteBeforeABuffer) {
  device_.WriteOutOfBoundsFor("<float, 512>", -8);
  Begin(CopyProblem(4096));
  const CheckResult bad = Check(CopyCandidate(1, 512, {}));
  ASSERT_TRUE(bad.rejection);
  EXPECT_EQ(Detail(bad), "wrote before dst at n=4096: 8 bytes ahead of its start");
}

// A copy past the end of both buffers must not repair the damage it does.
TEST_F(DeviceProfilerTest, FindsACopyPastTheEndOfBothBuffers) {
  device_.SetKernel("copy_1d", [](const FakeLaunch& launch) {
    std::memcpy(Floats(launch.argument<uint64_t>(0)), Floats(launch.argument<uint64_t>(1)),
                static_cast<size_t>(launch.argument<int64_t>(2) + 3) * 4);
  });
  Begin(CopyProblem(4096));
  const CheckResult bad = Check(CopyCandidate(1, 512, {}));
  ASSERT_TRUE(bad.rejection);
  EXPECT_EQ(bad.rejection->kind, RejectionKind::kIllegalAccess);
}

TEST_F(DeviceProfilerTest, RejectsACandidateThatChangesItsInput) {
  device_.SetKernel("copy_1d", [](const FakeLaunch& launch) {
    FakeDevice::Copy(4)(launch);
    if (launch.entry.find(", 512>") == std::string::npos) return;
    Floats(launch.argument<uint64_t>(1))[5] = 42;
  });
  Begin(CopyProblem(4096));
  const CheckResult bad = Check(CopyCandidate(1, 512, {}));
  ASSERT_TRUE(bad.rejection);
  EXPECT_EQ(bad.rejection->kind, RejectionKind::kWrongResult);
  EXPECT_EQ(Detail(bad), "changed src at n=4096, which it may only read");
  EXPECT_FALSE(Check(CopyCandidate(2, 256, {255})).rejection);
}

TEST_F(DeviceProfilerTest, DamageToTheReferenceOutputsIsNotHeldAgainstTheNextCandidate) {
  uint64_t reference_output = 0;
  device_.SetKernel("copy_1d_reference", [&](const FakeLaunch& launch) {
    FakeDevice::Copy(4)(launch);
    reference_output = launch.argument<uint64_t>(0);
  });
  bool wild = true;
  device_.SetKernel("copy_1d", [&](const FakeLaunch& launch) {
    FakeDevice::Copy(4)(launch);
    if (std::exchange(wild, false)) Floats(reference_output)[9] = 3;
  });
  Begin(CopyProblem(4096));
  EXPECT_FALSE(Check(CopyCandidate(1, 256, {})).rejection);
}

TEST_F(DeviceProfilerTest, PlacesSmallBuffersAtTheLeastAlignmentTheRecipeAccepts) {
  std::vector<uint64_t> addresses;
  device_.SetKernel("copy_1d", [&](const FakeLaunch& launch) {
    FakeDevice::Copy(4)(launch);
    addresses.push_back(launch.argument<uint64_t>(0));
    addresses.push_back(launch.argument<uint64_t>(1));
  });
  Begin(CopyProblem(4096));
  EXPECT_FALSE(Check(CopyCandidate(1, 256, {255}, 16)).rejection);
  ASSERT_THAT(addresses, SizeIs(6));
  EXPECT_EQ(addresses[0] % 256, 0u);  // the tuned size, twice for its bits: as served
  EXPECT_EQ(addresses[2] % 256, 0u);
  EXPECT_EQ(addresses[4] % 32, 16u);
  EXPECT_EQ(addresses[5] % 32, 16u);
}

TEST_F(DeviceProfilerTest, SkipsSmallSizesTheGuardsRefuse) {
  ProfileCandidate candidate = CopyCandidate(1, 256, {255, 512});
  candidate.recipe.guards = {*Expression::Parse("n % 256 == 0")};
  Begin(CopyProblem(4096));
  EXPECT_THAT(Check(candidate).verified_sizes, ElementsAre("n=4096", "n=512"));
}

// scenario P28
TEST_F(DeviceProfilerTest, AnInPlaceKernelIsComparedWithExactlyOneApplication) {
  device_.SetKernel("scale_1d", [](const FakeLaunch& launch) {
    Scale(launch);
    Scale(launch);
  });
  Begin(ScaleProblem(1024));
  const CheckResult twice = Check(ScaleCandidate(1, 128, {}));
  ASSERT_TRUE(twice.rejection);
  EXPECT_THAT(Detail(twice), HasSubstr("wrong result in x at n=1024: 1024 of 1024 elements"));
}

TEST_F(DeviceProfilerTest, InputsAreFilledOnceHoweverManyCandidatesThereAre) {
  Begin(CopyProblem(4096));
  EXPECT_FALSE(Check(CopyCandidate(1, 256, {255, 257})).rejection);
  const int fills = device_.fills();
  EXPECT_FALSE(Check(CopyCandidate(2, 256, {255, 257})).rejection);
  EXPECT_FALSE(Check(CopyCandidate(3, 256, {255, 257})).rejection);
  EXPECT_EQ(device_.fills(), fills);
  EXPECT_EQ(
      std::count(device_.launched().begin(), device_.launched().end(), "copy_1d_reference<float>"),
      3);  // once a size
}

TEST_F(DeviceProfilerTest, ARefusedLaunchIsARejectionOfKindLaunch) {
  device_.RefuseLaunchFor("<float, 512>",
                          absl::FailedPreconditionError("too many resources requested"));
  Begin(CopyProblem(4096));
  const CheckResult bad = Check(CopyCandidate(1, 512, {}));
  ASSERT_TRUE(bad.rejection);
  EXPECT_EQ(bad.rejection->kind, RejectionKind::kLaunch);
  EXPECT_FALSE(Check(CopyCandidate(2, 256, {})).rejection);
  EXPECT_FALSE(profiler_.device_lost());
}

TEST_F(DeviceProfilerTest, AFaultRejectsTheCandidateAndLosesTheDevice) {
  device_.AbortFor("<float, 512>");
  Begin(CopyProblem(4096));
  const CheckResult bad = Check(CopyCandidate(1, 512, {}));
  ASSERT_TRUE(bad.rejection);
  EXPECT_EQ(bad.rejection->kind, RejectionKind::kIllegalAccess);
  EXPECT_TRUE(profiler_.device_lost());
  EXPECT_EQ(profiler_.Check(CopyCandidate(2, 256, {})).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(DeviceProfilerTest, AFaultOfTheReferenceIsNotTheCandidates) {
  device_.AbortFor("copy_1d_reference");
  const absl::Status status = profiler_.Begin(CopyProblem(4096));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the reference at n=4096 failed"));
  EXPECT_TRUE(profiler_.device_lost());
}

TEST_F(DeviceProfilerTest, AReferenceThatLeavesElementsUnwrittenIsReported) {
  device_.SetKernel("copy_1d_reference", [](const FakeLaunch& launch) {
    const auto bytes = static_cast<size_t>(launch.argument<int64_t>(2) * 4);
    std::memcpy(Floats(launch.argument<uint64_t>(0)), Floats(launch.argument<uint64_t>(1)),
                bytes - 12);
  });
  const absl::Status status = profiler_.Begin(CopyProblem(4096));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the reference leaves 3 of 4096 elements of dst unwritten at n=4096"));
}

TEST_F(DeviceProfilerTest, AReferenceThatWritesBeyondItsOutputIsReported) {
  device_.WriteOutOfBoundsFor("copy_1d_reference", 4096 * 4 + 2);
  const absl::Status status = profiler_.Begin(CopyProblem(4096));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the reference wrote beyond"));
}

// scenario P27
TEST_F(DeviceProfilerTest, WithoutAReferenceCandidatesAreComparedWithTheFirst) {
  ProfileProblem problem = CopyProblem(4096);
  problem.check.references.clear();
  problem.check_artifact.reset();
  device_.CorruptOutputFor("<float, 512>");
  Begin(problem);
  const CheckResult first = Check(CopyCandidate(1, 256, {255}));
  EXPECT_FALSE(first.rejection) << Detail(first);
  EXPECT_FALSE(first.verified);
  const CheckResult other = Check(CopyCandidate(2, 512, {511}));
  ASSERT_TRUE(other.rejection);
  EXPECT_EQ(other.rejection->kind, RejectionKind::kWrongResult);
  EXPECT_THAT(Detail(other), HasSubstr("compared with XBLOCK=256"));
  // The first stays the measure after the tuner has dropped it.
  profiler_.Forget(1);
  EXPECT_FALSE(Check(CopyCandidate(3, 128, {127})).rejection);
}

TEST_F(DeviceProfilerTest, ARejectedFirstCandidateDoesNotBecomeTheMeasure) {
  ProfileProblem problem = CopyProblem(4096);
  problem.check.references.clear();
  problem.check_artifact.reset();
  device_.WriteOutOfBoundsFor("<float, 512>", 4096 * 4);
  Begin(problem);
  const CheckResult first = Check(CopyCandidate(1, 512, {}));
  ASSERT_TRUE(first.rejection);
  EXPECT_EQ(first.rejection->kind, RejectionKind::kIllegalAccess);
  EXPECT_FALSE(Check(CopyCandidate(2, 256, {255})).rejection);
  EXPECT_FALSE(Check(CopyCandidate(3, 128, {127})).rejection);
}

TEST_F(DeviceProfilerTest, OptionalBuffersAreAlsoTriedAbsent) {
  const auto add = [](const FakeLaunch& launch) {
    const auto bias = launch.argument<uint64_t>(2);
    for (int64_t i = 0; i < launch.argument<int64_t>(3); ++i) {
      float x, b = 0;
      std::memcpy(&x, Floats(launch.argument<uint64_t>(1)) + i, 4);
      if (bias != 0) std::memcpy(&b, Floats(bias) + i, 4);
      x += b;
      std::memcpy(Floats(launch.argument<uint64_t>(0)) + i, &x, 4);
    }
  };
  device_.SetKernel("copy_1d_reference", add);
  device_.SetKernel("copy_1d", add);
  const auto with_bias = [](LaunchRecipe recipe) {
    RecipeArgument bias = BufferArgumentOf("bias", Access::kRead);
    std::get<RecipeBuffer>(bias.kind).optional = true;
    recipe.arguments.insert(recipe.arguments.begin() + 2, bias);
    recipe.steps[0].arguments = {0, 1, 2, 3};
    return recipe;
  };
  ProfileProblem problem = CopyProblem(1024);
  problem.arguments = with_bias(problem.arguments);
  problem.check.references[0].reference = with_bias(problem.check.references[0].reference);
  ProfileCandidate candidate = CopyCandidate(1, 256, {257});
  candidate.recipe = with_bias(candidate.recipe);
  Begin(problem);
  EXPECT_THAT(Check(candidate).verified_sizes,
              ElementsAre("n=1024", "n=257", "n=257 without bias"));

  device_.SetKernel("copy_1d", [&](const FakeLaunch& launch) {
    if (launch.argument<uint64_t>(2) != 0) add(launch);
  });
  const CheckResult bad = Check(candidate);
  ASSERT_TRUE(bad.rejection);
  EXPECT_THAT(Detail(bad), HasSubstr("wrong result in dst at n=257 without bias"));
}

TEST_F(DeviceProfilerTest, ScratchIsPoisonedUnlessZeroesWerePromised) {
  std::vector<int> seen;
  device_.SetKernel("copy_1d", [&](const FakeLaunch& launch) {
    FakeLaunch copy = launch;
    FakeDevice::Copy(4)(copy);
    seen.push_back(reinterpret_cast<unsigned char*>(launch.argument<uint64_t>(3))[7]);
  });
  const auto with_scratch = [](ScratchZeroed zeroed) {
    ProfileCandidate candidate = CopyCandidate(1, 256, {});
    candidate.recipe.arguments.push_back(
        {"partials", RecipeScratch{Expression::Constant(64), zeroed}});
    candidate.recipe.steps[0].arguments = {0, 1, 2, 3};
    return candidate;
  };
  Begin(CopyProblem(1024));
  EXPECT_FALSE(Check(with_scratch(ScratchZeroed::kNever)).rejection);
  EXPECT_FALSE(Check(with_scratch(ScratchZeroed::kEveryLaunch)).rejection);
  EXPECT_FALSE(Check(with_scratch(ScratchZeroed::kOnce)).rejection);
  // The last launch of each shows whether its bits are the same again.
  EXPECT_THAT(seen, ElementsAre(0xff, 0xff, 0, 0, 0, 0, 0));
}

TEST_F(DeviceProfilerTest, ScratchZeroedOnceMustBeLeftReadyForTheNextLaunch) {
  device_.SetKernel("copy_1d", [&](const FakeLaunch& launch) {
    char* const used = reinterpret_cast<char*>(launch.argument<uint64_t>(3));
    if (*used == 0) FakeDevice::Copy(4)(launch);
    *used = 1;
  });
  ProfileCandidate candidate = CopyCandidate(1, 256, {});
  candidate.recipe.arguments.push_back(
      {"done", RecipeScratch{Expression::Constant(4), ScratchZeroed::kOnce}});
  candidate.recipe.steps[0].arguments = {0, 1, 2, 3};
  Begin(CopyProblem(1024));
  const CheckResult result = Check(candidate);
  ASSERT_TRUE(result.rejection);
  EXPECT_EQ(result.rejection->kind, RejectionKind::kWrongResult);
}

TEST_F(DeviceProfilerTest, ZeroSizedProblemsAreFine) {
  Begin(CopyProblem(0));
  EXPECT_FALSE(Check(CopyCandidate(1, 256, {1})).rejection);
  EXPECT_TRUE(profiler_.Sample(1, 2).ok());
}

// scenario P29
TEST_F(DeviceProfilerTest, AProblemBeyondTheFreeMemoryIsRefusedWithBothFigures) {
  device_.SetMemoryBytes(300 << 20);
  device_.SetFlushBytes(120 << 20);
  const absl::Status status = profiler_.Begin(CopyProblem(int64_t{128} << 20));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const auto info = ErrorInfoOf(status);
  ASSERT_TRUE(info);
  EXPECT_GT(info->needed, int64_t{3} * (int64_t{128} << 22));
  EXPECT_EQ(info->available, 300 << 20);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tuning at n=134217728 needs "));
  EXPECT_EQ(device_.allocated_bytes(), 0);

  Begin(CopyProblem(1 << 20));
  EXPECT_FALSE(Check(CopyCandidate(1, 256, {255})).rejection);
  EXPECT_TRUE(profiler_.Sample(1, 3).ok());
  EXPECT_GT(device_.flushes(), 0);
  profiler_.End();
  EXPECT_EQ(device_.allocated_bytes(), 0);
  EXPECT_EQ(device_.modules(), 0);
}

// scenario P29
TEST_F(DeviceProfilerTest, TheCallersBudgetCountsBeforeTheDevicesMemory) {
  ProfileProblem problem = CopyProblem(1 << 20);
  problem.memory_bytes_max = 16 << 20;
  const absl::Status status = profiler_.Begin(problem);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("16777216 are available"));
}

TEST_F(DeviceProfilerTest, ForgottenAndRejectedCandidatesCannotBeSampled) {
  device_.CorruptOutputFor("<float, 512>");
  Begin(CopyProblem(1024));
  Check(CopyCandidate(1, 512, {}));
  EXPECT_EQ(profiler_.Sample(1, 1).status().code(), absl::StatusCode::kInternal);
  Check(CopyCandidate(2, 256, {}));
  EXPECT_EQ(device_.modules(), 2);  // the reference's and the candidate's
  profiler_.Forget(2);
  EXPECT_EQ(device_.modules(), 1);
  EXPECT_EQ(profiler_.Sample(2, 1).status().code(), absl::StatusCode::kInternal);
}

// scenario P21
TEST_F(DeviceProfilerTest, ManyCandidatesLeaveNothingBehind) {
  Begin(CopyProblem(1024));
  int64_t bytes_before = 0;
  for (int64_t id = 0; id < 300; ++id) {
    EXPECT_FALSE(Check(CopyCandidate(id, 32 + id, {31 + id, 33 + id})).rejection);
    profiler_.Forget(id);
    if (id == 200) bytes_before = device_.allocated_bytes();
  }
  EXPECT_EQ(device_.modules(), 1);
  EXPECT_LE(device_.allocated_bytes(), bytes_before + (2 << 20));
}

TEST_F(DeviceProfilerTest, TellsWhenForeignCodeRunsAndWhenItHasEnded) {
  std::vector<std::string> phases;
  profiler_.SetPhaseListener([&](bool launching, const std::string& what) {
    phases.push_back(absl::StrCat(launching ? "begin " : "end ", what));
  });
  Begin(CopyProblem(1024));
  Check(CopyCandidate(1, 256, {255}));
  EXPECT_THAT(phases, ElementsAre("begin the reference at n=1024", "end the reference at n=1024",
                                  "begin n=1024", "end n=1024", "begin n=1024", "end n=1024",
                                  "begin the reference at n=255", "end the reference at n=255",
                                  "begin n=255", "end n=255"));
}

}  // namespace
}  // namespace hone
