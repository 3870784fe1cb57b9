#include "runtime/compile/compile_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

auto IsRefused(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
}

TEST(NormalizeOptionsTest, EverySpellingBecomesOne) {
  const auto expected =
      IsOkAndHolds(ElementsAre("--std=c++17", "--include-path=dirA", "--include-path=dirB",
                               "--define-macro=X=1", "--device-as-default-execution-space",
                               "--use_fast_math", "--maxrregcount=64", "--generate-line-info"));
  EXPECT_THAT(NormalizeOptions({"-std=c++17", "-I", "dirA", "-IdirB/", "-DX=1", "-default-device",
                                "-use_fast_math", "--maxrregcount", "64", "-lineinfo"}),
              expected);
  EXPECT_THAT(
      NormalizeOptions({"-lineinfo", "--use_fast_math", "-maxrregcount=64",
                        "--device-as-default-execution-space", "--include-path=dirA",
                        "--include-path", "./dirB", "--define-macro=X=1", "--std", "c++17"}),
      expected);
}

TEST(NormalizeOptionsTest, IsIdempotent) {
  const auto once = NormalizeOptions({"-DB=2", "-DA", "-I.", "-Xptxas", "-v", "--fmad=false"});
  ASSERT_THAT(once, IsOk());
  EXPECT_THAT(NormalizeOptions(*once), IsOkAndHolds(*once));
}

// scenario P02
TEST(NormalizeOptionsTest, IncludeDirectoriesKeepTheirOrder) {
  EXPECT_THAT(NormalizeOptions({"-I", "dirB", "-I", "dirA", "-IdirB"}),
              IsOkAndHolds(ElementsAre("--include-path=dirB", "--include-path=dirA")));
}

// scenario P12
TEST(NormalizeOptionsTest, AnUnknownOptionIsRefusedByNameWithTheList) {
  EXPECT_THAT(NormalizeOptions({"--std=c++17", "--bogus=3"}),
              IsRefused("'--bogus=3' is not allowed"));
  EXPECT_THAT(NormalizeOptions({"--bogus"}), IsRefused("--maxrregcount="));
  EXPECT_THAT(NormalizeOptions({"plain"}), IsRefused("'plain'"));
  EXPECT_THAT(NormalizeOptions({""}), IsRefused("''"));
}

TEST(NormalizeOptionsTest, OptionsThatTouchFilesOrTheTargetAreNotAllowed) {
  for (const char* option :
       {"--pre-include=/etc/passwd", "--time=/tmp/x", "--fdevice-time-trace=/tmp/x",
        "--create-pch=/tmp/x", "--use-pch=/tmp/x", "--pch", "--pch-dir=/tmp", "-arch=sm_90",
        "--gpu-architecture=sm_90", "--dlink-time-opt", "-dlto", "--relocatable-device-code=true",
        "-rdc=true", "--gen-opt-lto", "@/tmp/response", "--cache", "-o", "/tmp/x"}) {
    EXPECT_THAT(NormalizeOptions({option}), IsRefused(option));
  }
}

TEST(NormalizeOptionsTest, IncludeDirectoriesStayBelowTheHeadersSent) {
  for (const char* directory : {"/usr/include", "../x", "a/../../x", ""}) {
    EXPECT_THAT(NormalizeOptions({"-I", directory}), IsRefused("relative to the headers sent"))
        << directory;
  }
}

TEST(NormalizeOptionsTest, ValuesAreChecked) {
  EXPECT_THAT(NormalizeOptions({"--maxrregcount=abc"}), IsRefused("a number from 16 to 255"));
  EXPECT_THAT(NormalizeOptions({"--maxrregcount=300"}), IsRefused("'300'"));
  EXPECT_THAT(NormalizeOptions({"--fmad=maybe"}), IsRefused("true or false"));
  EXPECT_THAT(NormalizeOptions({"-std=c++23"}), IsRefused("c++20"));
  EXPECT_THAT(NormalizeOptions({"-D1X=2"}), IsRefused("NAME or NAME=VALUE"));
  EXPECT_THAT(NormalizeOptions({"-DX=1\n#include </etc/passwd>"}), IsRefused("one line"));
  EXPECT_THAT(NormalizeOptions({"--diag-suppress=177,x"}), IsRefused("diagnostic numbers"));
  EXPECT_THAT(NormalizeOptions({"--ptxas-options=-v,--output=/tmp/x"}),
              IsRefused("--warn-on-spills"));
  EXPECT_THAT(NormalizeOptions({"--use_fast_math=true"}), IsRefused("takes no value"));
  EXPECT_THAT(NormalizeOptions({"--maxrregcount"}), IsRefused("needs a value"));
}

TEST(NormalizeOptionsTest, ContradictionsAreRefusedAndRepetitionsDropped) {
  EXPECT_THAT(NormalizeOptions({"-std=c++17", "--std=c++20"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("c++20"), HasSubstr("contradicts"), HasSubstr("c++17"))));
  EXPECT_THAT(NormalizeOptions({"--fmad=true", "-fmad=true"}),
              IsOkAndHolds(ElementsAre("--fmad=true")));
}

TEST(SplitOptionTest, GivesNameAndValue) {
  EXPECT_EQ(SplitOption("--define-macro=X=1").name, "--define-macro");
  EXPECT_EQ(SplitOption("--define-macro=X=1").value, "X=1");
  EXPECT_EQ(SplitOption("--use_fast_math").value, "");
}

}  // namespace
}  // namespace hone
