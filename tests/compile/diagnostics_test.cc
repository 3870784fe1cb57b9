#include "runtime/compile/diagnostics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Program ThreeLines() {
  Program program;
  program.name = "k.cu";
  program.source = "line one\nline two\nline three\nline four\nline five\n";
  program.headers = {{"sub/cfg.h", "header one\nheader two\n"}};
  return program;
}

// scenario P08
TEST(ReadLogTest, CountsUpToTheCompilersLimitAndSaysSo) {
  std::string log;
  for (int i = 1; i <= 100; ++i) {
    absl::StrAppend(&log, "k.cu(", i, "): error: identifier \"b", i, "\" is undefined\n  text\n\n");
  }
  log += "Error limit reached.\n100 errors detected in the compilation of \"k.cu\".\n";
  const Diagnostics diagnostics = ReadLog(log, ThreeLines());
  EXPECT_EQ(diagnostics.error_count, 100);
  EXPECT_TRUE(diagnostics.error_limit_reached);
  EXPECT_THAT(ErrorSummary(diagnostics),
              StartsWith("100 errors, limit reached; first: k.cu(1): error: identifier \"b1\""));
}

TEST(ReadLogTest, TheExcerptShowsTheCallersOwnLines) {
  const Diagnostics diagnostics =
      ReadLog("k.cu(3): error: identifier \"x\" is undefined\n", ThreeLines());
  EXPECT_THAT(diagnostics.excerpt, StartsWith("k.cu(3): error: identifier"));
  EXPECT_THAT(diagnostics.excerpt, HasSubstr(">     3 | line three\n"));
  EXPECT_THAT(diagnostics.excerpt, HasSubstr("      1 | line one\n"));
  EXPECT_THAT(diagnostics.excerpt, HasSubstr("      5 | line five\n"));
}

TEST(ReadLogTest, ErrorsInHeadersSentAlongShowTheHeader) {
  const Diagnostics diagnostics =
      ReadLog("./sub/cfg.h(2): error: expected a \";\"\n", ThreeLines());
  EXPECT_THAT(diagnostics.excerpt, HasSubstr(">     2 | header two\n"));
}

TEST(ReadLogTest, ErrorsInOtherFilesShowNoSource) {
  const Diagnostics diagnostics =
      ReadLog("/usr/local/cuda/include/cuda_fp8.h(2): error: not for this target\n", ThreeLines());
  EXPECT_EQ(diagnostics.error_count, 1);
  EXPECT_THAT(diagnostics.excerpt, Not(HasSubstr("line two")));
}

TEST(ReadLogTest, WarningsAreNoErrors) {
  const Diagnostics diagnostics =
      ReadLog("k.cu(1): warning #177-D: variable \"error\" was declared\n", ThreeLines());
  EXPECT_EQ(diagnostics.error_count, 0);
  EXPECT_EQ(diagnostics.excerpt, "");
}

TEST(ReadLogTest, UnderstandsCatastrophicAndAssemblerErrors) {
  EXPECT_EQ(
      ReadLog("k.cu(1): catastrophic error: cannot open source file \"nope.h\"\n", ThreeLines())
          .error_count,
      1);
  const Diagnostics assembler = ReadLog(
      "ptxas application ptx input, line 23; error   : Instruction 'setmaxnreg.inc' not supported\n"
      "ptxas fatal   : Ptx assembly aborted due to errors\n",
      ThreeLines());
  EXPECT_EQ(assembler.error_count, 1);
  EXPECT_THAT(assembler.excerpt, HasSubstr("setmaxnreg"));
  EXPECT_EQ(ReadLog("ptxas fatal   : too much\n", ThreeLines()).error_count, 1);
}

TEST(ReadLogTest, UnderstandsHostCompilers) {
  const Diagnostics diagnostics = ReadLog(
      "k.cu: In function 'void f()':\nk.cu:2:5: error: 'x' was not declared in this scope\n"
      "k.cu:4:1: fatal error: nope.h: No such file or directory\n",
      ThreeLines());
  EXPECT_EQ(diagnostics.error_count, 2);
  EXPECT_THAT(diagnostics.excerpt, HasSubstr(">     2 | line two\n"));
}

TEST(ReadLogTest, LinesBeyondTheSourceAreNotShown) {
  EXPECT_THAT(ReadLog("k.cu(999): error: at end of source\n", ThreeLines()).excerpt,
              Not(HasSubstr("|")));
}

TEST(ErrorSummaryTest, IsNeverEmpty) {
  EXPECT_THAT(ErrorSummary(Diagnostics{}), HasSubstr("without naming an error"));
}

TEST(TruncateLogTest, KeepsWholeLinesOfTheHeadAndCountsTheRest) {
  std::string log = "first\nsecond\nthird\n";
  EXPECT_EQ(TruncateLog(log, 14), 6);
  EXPECT_EQ(log, "first\nsecond\n");
  EXPECT_EQ(TruncateLog(log, 1000), 0);
}

TEST(TruncateLogTest, CutsALongLineAnywhere) {
  std::string log = "a\n" + std::string(1000, 'x');
  EXPECT_EQ(TruncateLog(log, 100), 902);
  EXPECT_EQ(log.size(), 100u);
  EXPECT_EQ(TruncateLog(log, 0), 100);
}

}  // namespace
}  // namespace hone
