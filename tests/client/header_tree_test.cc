#include "client/cli/header_tree.h"

#include <filesystem>

#include "runtime/base/files.h"
#include "tests/testing/status_matchers.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using enum absl::StatusCode;

class HeaderTreeTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    ASSERT_THAT(MakeDirectories(DirectoryName(Path(name))), IsOk());
    ASSERT_THAT(WriteNewFile(Path(name), text), IsOk());
  }
  std::string Path(const std::string& name) const { return JoinPath(directory_.path(), name); }

  // The names found below these directories.
  absl::StatusOr<std::vector<std::string>> Names(const std::vector<std::string>& directories,
                                                 const std::vector<std::string>& only = {}) {
    std::vector<std::string> paths;
    for (const std::string& directory : directories) paths.push_back(Path(directory));
    const auto files = ReadHeaderTrees(paths, only);
    if (!files.ok()) return files.status();
    std::vector<std::string> names;
    for (const v1::SourceFile& file : *files) names.push_back(file.name());
    return names;
  }

  const TemporaryDirectory directory_ = TemporaryDirectory::Create().value();
};

TEST_F(HeaderTreeTest, FilesAreNamedAsSourcesIncludeThem) {
  Write("one/lib/b.hpp", "b");
  Write("one/a", "");
  Write("two/c.h", "c");
  EXPECT_THAT(Names({"one", "two/"}), IsOkAndHolds(ElementsAre("a", "c.h", "lib/b.hpp")));
  EXPECT_EQ((*ReadHeaderTrees({Path("one")}, {}))[1].content(), "b");
}

TEST_F(HeaderTreeTest, WhatIsNoHeaderIsLeftOut) {
  Write("lib/a.h", "");
  Write("lib/.git/config", "");
  Write("lib/.hidden.h", "");
  fs::create_symlink("a.h", Path("lib/link.h"));
  fs::create_symlink("nowhere.h", Path("lib/dangling.h"));
  fs::create_directory_symlink("..", Path("lib/up"));
  EXPECT_THAT(Names({"lib"}), IsOkAndHolds(ElementsAre("a.h", "link.h")));
}

TEST_F(HeaderTreeTest, PatternsNarrowIt) {
  Write("lib/cute/deep/a.hpp", "");
  Write("lib/cute/README.md", "");
  Write("lib/other/b.h", "");
  EXPECT_THAT(Names({"lib"}, {"*.h", "cute/*.hpp"}),
              IsOkAndHolds(ElementsAre("cute/deep/a.hpp", "other/b.h")));
  EXPECT_THAT(Names({"lib"}, {"*.cuh"}), StatusIs(kInvalidArgument, HasSubstr("--only")));
}

TEST_F(HeaderTreeTest, MistakesAreNamed) {
  Write("one/a.h", "");
  Write("two/a.h", "");
  EXPECT_THAT(Names({"one", "two"}),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("one/a.h"), HasSubstr("two/a.h"))));
  EXPECT_THAT(Names({"three"}), StatusIs(kInvalidArgument, HasSubstr("three: No such file")));
  EXPECT_THAT(Names({"one/a.h"}), StatusIs(kInvalidArgument, HasSubstr("Not a directory")));
  fs::create_directory(Path("empty"));
  EXPECT_THAT(Names({"empty"}), StatusIs(kInvalidArgument, HasSubstr("there is no file")));
}

// scenario P40
TEST_F(HeaderTreeTest, ATreeBeyondTheLimitIsToldTheLimit) {
  for (const char* name : {"lib/a.h", "lib/b.h"}) {
    Write(name, "");
    fs::resize_file(Path(name), 33 << 20);
  }
  EXPECT_THAT(Names({"lib"}),
              StatusIs(kResourceExhausted, AllOf(HasSubstr("64 MiB"), HasSubstr("--only"))));
  EXPECT_THAT(Names({"lib"}, {"a.h"}), IsOk());
}

}  // namespace
}  // namespace hone::cli
