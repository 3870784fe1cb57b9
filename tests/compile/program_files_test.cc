// What goes into a compile: checks of a program, its headers as files, registered header sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error_info.h"
#include "runtime/base/files.h"
#include "runtime/compile/check_program.h"
#include "runtime/compile/header_sets.h"
#include "runtime/compile/source_tree.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

auto IsRefusedFor(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
}

Program Trivial() {
  Program program;
  program.name = "k.cu";
  program.source = "__global__ void k() {}";
  program.architecture = "sm_90";
  return program;
}

TEST(CheckProgramTest, NormalisesOptionsAndTheName) {
  Program program = Trivial();
  program.name = "../weird dir/my kernel.cu";
  program.options = {"-lineinfo", "-std=c++17"};
  const auto checked = CheckProgram(program, ProgramLimits());
  ASSERT_THAT(checked, IsOk());
  EXPECT_THAT(checked->options, ElementsAre("--std=c++17", "--generate-line-info"));
  EXPECT_EQ(checked->name, "my_kernel.cu");
  program.name = "";
  EXPECT_EQ(CheckProgram(program, ProgramLimits())->name, "program.cu");
}

TEST(CheckProgramTest, BadFieldsAreNamed) {
  Program program = Trivial();
  program.source = "\xff";
  EXPECT_THAT(CheckProgram(program, ProgramLimits()), IsRefusedFor("source: not valid UTF-8"));
  program = Trivial();
  program.source = std::string("a\0b", 3);
  EXPECT_THAT(CheckProgram(program, ProgramLimits()), IsRefusedFor("source: holds a NUL"));
  program = Trivial();
  program.headers = {{"../up.h", ""}};
  EXPECT_THAT(CheckProgram(program, ProgramLimits()), IsRefusedFor("../up.h"));
  program.headers = {{"a.h", "1"}, {"a.h", "2"}};
  EXPECT_THAT(CheckProgram(program, ProgramLimits()), IsRefusedFor("'a.h' is given twice"));
  program = Trivial();
  program.defines = {{"A B", "1"}};
  EXPECT_THAT(CheckProgram(program, ProgramLimits()), IsRefusedFor("'A B' is not an identifier"));
  program.defines = {{"A", "1\n#include </etc/passwd>"}};
  EXPECT_THAT(CheckProgram(program, ProgramLimits()), IsRefusedFor("one line"));
  program = Trivial();
  program.name_expressions = {"k\n"};
  EXPECT_THAT(CheckProgram(program, ProgramLimits()), IsRefusedFor("name_expressions"));
  program.name_expressions = {""};
  EXPECT_THAT(CheckProgram(program, ProgramLimits()), IsRefusedFor("name_expressions"));
}

// scenario P40
TEST(CheckProgramTest, TooMuchSourceNamesSizeAndLimit) {
  Program program = Trivial();
  program.source = std::string(5 << 20, ' ');
  const auto checked = CheckProgram(program, ProgramLimits());
  EXPECT_THAT(checked, StatusIs(absl::StatusCode::kResourceExhausted,
                                AllOf(HasSubstr("5242880"), HasSubstr("1048576"))));
  EXPECT_EQ(ErrorInfoOf(checked.status())->needed, 5 << 20);
  EXPECT_EQ(ErrorInfoOf(checked.status())->available, 1 << 20);
  program = Trivial();
  program.headers = {{"a.h", std::string(5 << 20, ' ')}, {"b.h", std::string(5 << 20, ' ')}};
  EXPECT_THAT(CheckProgram(program, ProgramLimits()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("header bytes")));
}

class FilesFixture : public testing::Test {
 protected:
  TemporaryDirectory directory_ = *TemporaryDirectory::Create();
};

using SourceTreeTest = FilesFixture;

TEST_F(SourceTreeTest, HeadersLieUnderTheirNamesAndGoWithTheTree) {
  Program program = Trivial();
  program.headers = {{"cfg.h", "root"}, {"dirA/cfg.h", "a"}};
  const std::string path = JoinPath(directory_.path(), "source");
  {
    const auto tree = SourceTree::Create(path, program);
    ASSERT_THAT(tree, IsOk());
    EXPECT_THAT(ReadFile(path + "/cfg.h"), IsOkAndHolds("root"));
    EXPECT_THAT(ReadFile(path + "/dirA/cfg.h"), IsOkAndHolds("a"));
  }
  EXPECT_FALSE(PathExists(path));
}

TEST_F(SourceTreeTest, AFileThatIsAlsoADirectoryIsRefused) {
  Program program = Trivial();
  program.headers = {{"a", "x"}, {"a/b.h", "y"}};
  EXPECT_THAT(SourceTree::Create(JoinPath(directory_.path(), "source"), program),
              IsRefusedFor("'a/b.h'"));
}

TEST(ScrubPathsTest, GivesTheCallersNamesBack) {
  EXPECT_EQ(
      ScrubPaths("./sub/b.h(1): error: x\n/scratch/w/source/c.h(2): note /scratch/w/source/c.h\n",
                 {"/scratch/w/source"}),
      "sub/b.h(1): error: x\nc.h(2): note c.h\n");
}

class HeaderSetsTest : public FilesFixture {
 protected:
  HeaderSets Make(HeaderSetResolver resolver) {
    return HeaderSets(directory_.path(), std::move(resolver));
  }
};

TEST_F(HeaderSetsTest, ASetIsResolvedAndWrittenOnce) {
  int calls = 0;
  HeaderSets sets = Make([&](const std::string&) {
    ++calls;
    return std::vector<SourceFile>{{"cute/tensor.hpp", "content"}};
  });
  const auto directory = sets.DirectoryOf("abc123");
  ASSERT_THAT(directory, IsOk());
  EXPECT_THAT(ReadFile(*directory + "/cute/tensor.hpp"), IsOkAndHolds("content"));
  EXPECT_THAT(sets.DirectoryOf("abc123"), IsOkAndHolds(*directory));
  EXPECT_EQ(calls, 1);
}

TEST_F(HeaderSetsTest, ABadSetLeavesNothingAndIsTriedAgain) {
  int calls = 0;
  HeaderSets sets = Make([&](const std::string&) {
    ++calls;
    const std::string second = calls == 1 ? "../escape.h" : "fine.h";
    return std::vector<SourceFile>{{"first.h", "1"}, {second, "2"}};
  });
  EXPECT_THAT(sets.DirectoryOf("abc"), IsRefusedFor("../escape.h"));
  EXPECT_FALSE(PathExists(JoinPath(directory_.path(), "abc")));
  EXPECT_THAT(sets.DirectoryOf("abc"), IsOk());
}

TEST_F(HeaderSetsTest, DigestsAreNoPaths) {
  HeaderSets sets = Make([](const std::string&) { return std::vector<SourceFile>(); });
  for (const char* digest : {"", "../x", "a/b", "."}) {
    EXPECT_THAT(sets.DirectoryOf(digest), IsRefusedFor("is not a digest")) << digest;
  }
}

TEST_F(HeaderSetsTest, UnknownSetsAreNotFound) {
  EXPECT_THAT(Make(nullptr).DirectoryOf("abc"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'abc'")));
}

}  // namespace
}  // namespace hone
