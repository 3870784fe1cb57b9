#include "runtime/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FilesTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return JoinPath(directory_.path(), name); }

  TemporaryDirectory directory_ = *TemporaryDirectory::Create();
};

TEST_F(FilesTest, AtomicWriteReplacesAndLeavesNoTemporary) {
  ASSERT_THAT(WriteFileAtomic(Path("a"), "one"), IsOk());
  ASSERT_THAT(WriteFileAtomic(Path("a"), "two", 0600), IsOk());
  EXPECT_THAT(ReadFile(Path("a")), IsOkAndHolds("two"));
  EXPECT_THAT(ListDirectory(directory_.path()), IsOkAndHolds(ElementsAre("a")));
  struct stat info = {};
  ASSERT_EQ(::stat(Path("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(FilesTest, AtomicWriteReplacesFilesOnlyAndFollowsLinks) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir(Path("directory").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("pipe", Path("to_pipe").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", Path("dangling").c_str()), 0);
  for (const char* name : {"pipe", "directory", "to_pipe", "dangling"}) {
    EXPECT_THAT(WriteFileAtomic(Path(name), "x"), testing::Not(IsOk())) << name;
  }
  struct stat info = {};
  ASSERT_EQ(::lstat(Path("pipe").c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
  ASSERT_THAT(WriteFileAtomic(Path("a"), "one"), IsOk());
  ASSERT_EQ(::symlink("a", Path("link").c_str()), 0);
  ASSERT_THAT(WriteFileAtomic(Path("link"), "two"), IsOk());
  EXPECT_THAT(ReadFile(Path("a")), IsOkAndHolds("two"));
  ASSERT_EQ(::lstat(Path("link").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
}

TEST_F(FilesTest, AtomicWriteIntoAMissingDirectoryNamesThePath) {
  EXPECT_THAT(WriteFileAtomic(Path("missing/a"), "x"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(Path("missing/a"))));
}

TEST_F(FilesTest, ReadingAFifoDoesNotBlock) {
  ASSERT_EQ(::mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(ReadFile(Path("fifo")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
}

TEST_F(FilesTest, ReadingStopsAtTheLimit) {
  ASSERT_THAT(WriteNewFile(Path("big"), std::string(1000, 'x')), IsOk());
  EXPECT_THAT(ReadFile(Path("big"), 999),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("999")));
  EXPECT_THAT(ReadFile(Path("big"), 1000), IsOk());
}

TEST_F(FilesTest, NewFileDoesNotReplace) {
  ASSERT_THAT(WriteNewFile(Path("a"), "x"), IsOk());
  EXPECT_THAT(WriteNewFile(Path("a"), "y"),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("a")));
}

TEST_F(FilesTest, RemoveTreeDoesNotFollowLinks) {
  ASSERT_THAT(MakeDirectories(Path("keep")), IsOk());
  ASSERT_THAT(WriteNewFile(Path("keep/file"), "x"), IsOk());
  ASSERT_THAT(MakeDirectories(Path("tree/deep")), IsOk());
  ASSERT_EQ(::symlink(Path("keep").c_str(), Path("tree/link").c_str()), 0);
  EXPECT_THAT(RemoveTree(Path("tree")), IsOk());
  EXPECT_FALSE(PathExists(Path("tree")));
  EXPECT_TRUE(PathExists(Path("keep/file")));
  EXPECT_THAT(RemoveTree(Path("tree")), IsOk());
}

TEST_F(FilesTest, TemporaryDirectoryGoesWithItsOwner) {
  std::string path;
  {
    TemporaryDirectory first = *TemporaryDirectory::Create(directory_.path(), "t");
    path = first.path();
    TemporaryDirectory second = std::move(first);
    EXPECT_TRUE(IsDirectory(path));
  }
  EXPECT_FALSE(PathExists(path));
}

TEST(RelativePathTest, AcceptsPathsBelowARoot) {
  EXPECT_THAT(CheckRelativePath("cfg.h"), IsOk());
  EXPECT_THAT(CheckRelativePath("cute/arch/copy..hpp"), IsOk());
}

TEST(RelativePathTest, RefusesEveryWayOut) {
  for (const char* path :
       {"", "/etc/passwd", "../x", "a/../../x", "a/..", "./a", "a//b", "a\\b", "a\nb"}) {
    EXPECT_THAT(CheckRelativePath(path),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("path")))
        << path;
  }
  EXPECT_FALSE(CheckRelativePath(absl::string_view("a\0b", 3)).ok());
  EXPECT_FALSE(CheckRelativePath(std::string(2000, 'a')).ok());
}

}  // namespace
}  // namespace hone
