#include "runtime/compile/compiler_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "runtime/base/error_info.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CompilerInfo Nvrtc(const std::string& build, int version, std::vector<std::string> architectures) {
  CompilerInfo info;
  info.kind = "nvrtc";
  info.build = build;
  info.builder = "nvrtc " + build;
  info.path = "/cuda-" + build;
  info.cuda_version = version;
  info.available = true;
  info.architectures = std::move(architectures);
  return info;
}

class CompilerRegistryTest : public testing::Test {
 protected:
  void Install(const CompilerInfo& info) { installed_[info.kind + " " + info.path] = info; }

  CompilerRegistry Make(absl::Duration interval = absl::ZeroDuration()) {
    return CompilerRegistry(
        [this] {
          CompilerRegistry::Found found;
          for (const auto& [id, info] : installed_) found.specs.push_back({id, info.kind, {}});
          found.nothing_found = "libnvrtc.so.* was not found in /searched";
          return found;
        },
        [this](const CompilerSpec& spec) {
          MutexLock lock(&mutex_);
          ++descriptions_;
          return installed_.at(spec.id);
        },
        interval);
  }

  std::map<std::string, CompilerInfo> installed_;
  Mutex mutex_;
  int descriptions_ = 0;
};

TEST_F(CompilerRegistryTest, TakesTheNewestNvrtcWhoseMajorTheDriverSupports) {
  Install(Nvrtc("12.6.85", 12060, {"sm_90", "sm_90a"}));
  Install(Nvrtc("12.9.41", 12090, {"sm_90", "sm_90a"}));
  Install(Nvrtc("13.0.88", 13000, {"sm_90", "sm_90a"}));
  CompilerRegistry registry = Make();
  registry.Probe();
  EXPECT_EQ(registry.Select("sm_90a", 0)->info.build, "13.0.88");
  EXPECT_EQ(registry.Select("sm_90a", 13000)->info.build, "13.0.88");
  // Driver 550 speaks CUDA 12.4; a cubin of 12.9 still loads there.
  EXPECT_EQ(registry.Select("sm_90a", 12040)->info.build, "12.9.41");
}

TEST_F(CompilerRegistryTest, BuildsOfOneVersionCompareByNumber) {
  Install(Nvrtc("13.0.9", 13000, {"sm_90"}));
  Install(Nvrtc("13.0.88", 13000, {"sm_90"}));
  CompilerRegistry registry = Make();
  registry.Probe();
  EXPECT_EQ(registry.Select("sm_90", 0)->info.build, "13.0.88");
}

// scenario P05
TEST_F(CompilerRegistryTest, PtxIsOnlyMadeForDriversThatKnowIt) {
  Install(Nvrtc("12.6.85", 12060, {"sm_90"}));
  CompilerRegistry registry = Make();
  registry.Probe();
  EXPECT_THAT(registry.Select("compute_90", 12060), IsOk());
  EXPECT_THAT(registry.Select("compute_90", 12040),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("PTX"), HasSubstr("12.4"), HasSubstr("12.6"))));
}

TEST_F(CompilerRegistryTest, ADriverTooOldIsNamedWithBothVersions) {
  Install(Nvrtc("13.0.88", 13000, {"sm_90a"}));
  CompilerRegistry registry = Make();
  registry.Probe();
  const auto selected = registry.Select("sm_90a", 12040);
  EXPECT_THAT(selected, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("12.4"), HasSubstr("13.0.88"))));
  EXPECT_EQ(ErrorInfoOf(selected.status())->reason, "DRIVER_TOO_OLD");
}

// scenario P04
TEST_F(CompilerRegistryTest, AnArchitectureNoCompilerHasIsNamedWithThoseTheyHave) {
  Install(Nvrtc("13.0.88", 13000, {"sm_80", "sm_90", "sm_90a"}));
  CompilerRegistry registry = Make();
  registry.Probe();
  for (const char* architecture : {"sm_999", "sm_35", "sm_90f"}) {
    EXPECT_THAT(registry.Select(architecture, 0),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(architecture), HasSubstr("sm_80, sm_90, sm_90a"))));
  }
  EXPECT_EQ(registry.Select("hopper", 0).status().code(), absl::StatusCode::kInvalidArgument);
}

// scenario P06
TEST_F(CompilerRegistryTest, AMissingCompilerIsLookedForAgain) {
  CompilerRegistry registry = Make();
  registry.Probe();
  const auto missing = registry.Select("sm_90", 0);
  EXPECT_THAT(missing, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("/searched")));
  EXPECT_EQ(ErrorInfoOf(missing.status())->reason, "NVRTC_MISSING");
  ASSERT_EQ(registry.Infos().size(), 1u);
  EXPECT_FALSE(registry.Infos()[0].available);
  Install(Nvrtc("13.0.88", 13000, {"sm_90"}));
  EXPECT_THAT(registry.Select("sm_90", 0), IsOk());
}

TEST_F(CompilerRegistryTest, ABrokenCompilerSaysWhyAndIsAskedAgain) {
  CompilerInfo broken = Nvrtc("13.0.88", 13000, {"sm_90"});
  broken.available = false;
  broken.detail = "libnvrtc-builtins.so.13.*: no such file";
  Install(broken);
  CompilerRegistry registry = Make();
  registry.Probe();
  EXPECT_THAT(registry.Select("sm_90", 0), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                    HasSubstr("libnvrtc-builtins.so.13.*")));
  Install(Nvrtc("13.0.88", 13000, {"sm_90"}));
  EXPECT_THAT(registry.Select("sm_90", 0), IsOk());
}

TEST_F(CompilerRegistryTest, WorkingCompilersAreAskedOnceAndProbesAreRare) {
  Install(Nvrtc("13.0.88", 13000, {"sm_90"}));
  CompilerRegistry registry = Make(absl::Hours(1));
  registry.Probe();
  registry.Probe();
  EXPECT_EQ(descriptions_, 1);
  registry.MarkUnavailable("nvrtc /cuda-13.0.88", "its worker does not start");
  EXPECT_THAT(registry.Select("sm_90", 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("does not start")));
  EXPECT_EQ(descriptions_, 1);
}

TEST_F(CompilerRegistryTest, TheCpuIsServedByTheHostCompilerOnly) {
  Install(Nvrtc("13.0.88", 13000, {"sm_90"}));
  CompilerRegistry registry = Make();
  registry.Probe();
  const auto selected = registry.Select("cpu", 0);
  EXPECT_THAT(selected,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("host compiler")));
  EXPECT_EQ(ErrorInfoOf(selected.status())->reason, "HOST_COMPILER_MISSING");
  CompilerInfo host;
  host.kind = "host";
  host.available = true;
  host.architectures = {"cpu"};
  Install(host);
  registry.Probe();
  EXPECT_THAT(registry.Select("cpu", 12040), IsOk());
}

}  // namespace
}  // namespace hone
