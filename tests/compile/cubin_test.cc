#include "runtime/compile/cubin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "runtime/base/files.h"
#include "runtime/base/sha256.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;

constexpr char kShared[] = "shared_400";
constexpr char kLocal[] = "_Z9local_256IfEvPT_i";

// Made with NVRTC from two kernels: one with float s[100] in shared memory and
// __launch_bounds__(128,2), one with an indexed float b[64].
std::string Cubin(const std::string& name) {
  auto bytes = ReadFile(JoinPath(HONE_COMPILE_DATA, name));
  EXPECT_THAT(bytes, IsOk());
  return bytes.value_or("");
}

class CubinTest : public testing::TestWithParam<const char*> {};

TEST_P(CubinTest, StatesItsKernelsAndWhatTheyUse) {
  const auto info = ParseCubin(Cubin(GetParam()));
  ASSERT_THAT(info, IsOk());
  ASSERT_EQ(info->kernels.size(), 2u);
  const EntryResources* shared = info->Find(kShared);
  ASSERT_NE(shared, nullptr);
  // Without the kilobyte that the system reserves from sm_90 on.
  EXPECT_EQ(shared->static_shared_bytes, 400);
  EXPECT_EQ(shared->max_threads_per_block, 128);
  EXPECT_EQ(shared->local_bytes, 0);
  EXPECT_GT(shared->registers, 4);
  const EntryResources* local = info->Find(kLocal);
  ASSERT_NE(local, nullptr);
  EXPECT_EQ(local->local_bytes, 256);
  EXPECT_EQ(local->static_shared_bytes, 0);
  EXPECT_EQ(local->max_threads_per_block, 0);
  EXPECT_GT(local->registers, shared->registers);
}

INSTANTIATE_TEST_SUITE_P(Toolkits, CubinTest,
                         testing::Values("cuda13_sm_90a.cubin", "cuda13_sm_80.cubin",
                                         "cuda12_sm_90a.cubin"));

TEST(CubinArchitectureTest, NamesTheArchitectureWithItsSuffix) {
  EXPECT_EQ(ParseCubin(Cubin("cuda13_sm_90a.cubin"))->architecture, "sm_90a");
  EXPECT_EQ(ParseCubin(Cubin("cuda12_sm_90a.cubin"))->architecture, "sm_90a");
  EXPECT_EQ(ParseCubin(Cubin("cuda13_sm_80.cubin"))->architecture, "sm_80");
}

TEST(CubinRobustnessTest, AnyTruncationAndAnyFlippedByteGiveAnAnswer) {
  const std::string good = Cubin("cuda13_sm_90a.cubin");
  for (size_t size = 0; size < good.size(); size += 7) {
    const auto info = ParseCubin(absl::string_view(good).substr(0, size));
    EXPECT_TRUE(!info.ok() || info->kernels.size() <= 2u) << size;
  }
  std::mt19937 random(1);  // fixed: a failure must come back
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (int flips = 0; flips < 4; ++flips) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    const auto info = ParseCubin(bad);
    EXPECT_TRUE(info.ok() || absl::IsInvalidArgument(info.status())) << info.status();
  }
}

TEST(CubinRobustnessTest, OtherFilesAreRefusedWithTheReason) {
  EXPECT_THAT(ParseCubin(""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no ELF header")));
  EXPECT_THAT(ParseCubin(std::string(1000, '\0')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no ELF header")));
  const auto self = ReadFile(ExecutablePath());
  ASSERT_THAT(self, IsOk());
  EXPECT_THAT(ParseCubin(*self),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not a GPU")));
}

TEST(PrebuiltArtifactTest, CarriesTheBinaryWithItsResources) {
  const std::string bytes = Cubin("cuda13_sm_90a.cubin");
  const auto artifact = PrebuiltArtifact(bytes, "sm_90a", {kShared});
  ASSERT_THAT(artifact, IsOk());
  EXPECT_EQ(artifact->bytes, bytes);
  EXPECT_EQ(artifact->sha256, Sha256Hex(bytes));
  EXPECT_EQ(artifact->builder, "prebuilt");
  EXPECT_EQ(artifact->lowered_names.at(kShared), kShared);
  ASSERT_NE(artifact->FindResources(kLocal), nullptr);
}

TEST(PrebuiltArtifactTest, AMissingKernelIsNamedWithThoseThereAre) {
  EXPECT_THAT(PrebuiltArtifact(Cubin("cuda13_sm_80.cubin"), "sm_80", {"other"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("'other'"), HasSubstr(kShared))));
}

TEST(PrebuiltArtifactTest, AnotherArchitectureIsRefused) {
  const std::string sm90a = Cubin("cuda13_sm_90a.cubin");
  for (const char* wanted : {"sm_80", "sm_90", "compute_90", "cpu"}) {
    EXPECT_THAT(PrebuiltArtifact(sm90a, wanted, {}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("built for sm_90a")))
        << wanted;
  }
}

}  // namespace
}  // namespace hone
