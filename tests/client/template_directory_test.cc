#include "client/cli/template_directory.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/status_matchers.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using enum absl::StatusCode;

class TemplateDirectoryTest : public testing::Test {
 protected:
  TemplateDirectoryTest() {
    std::string path = "/tmp/hone-template-XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  ~TemplateDirectoryTest() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
  }

  std::string directory_;
};

constexpr char kGood[] = R"(name: "k"
source: "k.cu"
headers: "a.h"
steps {
  entry: "k"
  launch { grid_x: "n +" }
}
)";

TEST_F(TemplateDirectoryTest, ReadsTheTemplateWithItsFiles) {
  Write("template.pbtxt", kGood);
  Write("k.cu", "__global__ void k() {}");
  Write("a.h", "// a");
  Write("unrelated.txt", "x");
  absl::StatusOr<LocalTemplate> local = ReadTemplate(directory_);
  ASSERT_THAT(local, IsOk());
  ASSERT_EQ(local->message.files_size(), 2);
  EXPECT_EQ(local->message.files(0).name(), "a.h");
  EXPECT_EQ(local->message.files(1).content(), "__global__ void k() {}");
  EXPECT_EQ(local->locations.at("steps[0].launch.grid_x"), "6:12");
  EXPECT_THAT(ReadTemplate(directory_ + "/template.pbtxt"), IsOk());
}

TEST_F(TemplateDirectoryTest, HeadersMayStandInIncludeBesideTheDirectory) {
  std::filesystem::create_directories(directory_ + "/k");
  std::filesystem::create_directories(directory_ + "/include");
  Write("k/template.pbtxt", kGood);
  Write("k/k.cu", "__global__ void k() {}");
  Write("include/a.h", "// shared");
  Write("include/k.cu", "// sources are not shared");
  absl::StatusOr<LocalTemplate> local = ReadTemplate(directory_ + "/k");
  ASSERT_THAT(local, IsOk());
  EXPECT_EQ(local->message.files(0).content(), "// shared");
  EXPECT_EQ(local->message.files(1).content(), "__global__ void k() {}");
  Write("k/a.h", "// own");
  local = ReadTemplate(directory_ + "/k");
  ASSERT_THAT(local, IsOk());
  EXPECT_EQ(local->message.files(0).content(), "// own");
  std::filesystem::remove(directory_ + "/k/a.h");
  std::filesystem::remove(directory_ + "/include/a.h");
  EXPECT_THAT(ReadTemplate(directory_ + "/k"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/k/a.h")));
}

TEST_F(TemplateDirectoryTest, SyntaxErrorsHaveFileLineAndColumn) {
  Write("template.pbtxt", "name: \"k\"\nsauce: \"k.cu\"\n");
  EXPECT_THAT(ReadTemplate(directory_),
              StatusIs(kInvalidArgument,
                       AllOf(StartsWith(directory_ + "/template.pbtxt:2:"), HasSubstr("sauce"))));
}

TEST_F(TemplateDirectoryTest, MissingFilesAreNamedWithTheTemplateThatNamesThem) {
  EXPECT_THAT(ReadTemplate(directory_),
              StatusIs(kInvalidArgument, HasSubstr("template.pbtxt: No such file")));
  Write("template.pbtxt", kGood);
  Write("a.h", "");
  EXPECT_THAT(ReadTemplate(directory_),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("k.cu: No such file"),
                                               HasSubstr("named in " + directory_))));
}

TEST_F(TemplateDirectoryTest, TheDaemonsErrorsGetALocation) {
  Write("template.pbtxt", kGood);
  Write("k.cu", "");
  Write("a.h", "");
  absl::StatusOr<LocalTemplate> local = ReadTemplate(directory_);
  ASSERT_THAT(local, IsOk());
  const std::string path = directory_ + "/template.pbtxt";
  const auto located = [&](const std::string& message) {
    return std::string(Located(*local, absl::InvalidArgumentError(message)).message());
  };
  EXPECT_EQ(located("steps[0].launch.grid_x: column 4: expected a number"),
            path + ":6:12: steps[0].launch.grid_x: column 4: expected a number");
  // What is missing has no place of its own: that of what should hold it.
  EXPECT_EQ(located("steps[0].launch.block_x: too large"),
            path + ":6:3: steps[0].launch.block_x: too large");
  EXPECT_EQ(located("something else"), "something else");
}

TEST_F(TemplateDirectoryTest, AnEditedTemplateGetsAVersionOfItsOwn) {
  v1::KernelTemplate message;
  message.set_name("k");
  message.set_version("2");
  (*message.add_priors()->mutable_config())["A"] = 1;
  const std::string version = WithDevelopmentVersion(message).version();
  EXPECT_THAT(version, StartsWith("2+dev."));
  EXPECT_EQ(WithDevelopmentVersion(message).version(), version);
  (*message.mutable_priors(0)->mutable_config())["A"] = 2;
  EXPECT_NE(WithDevelopmentVersion(message).version(), version);
}

TEST(LooksLikePathTest, APlainNameIsATemplateOfTheDaemon) {
  EXPECT_FALSE(LooksLikePath("copy_1d"));
  for (const char* path : {".", "..", "./copy_1d", "kernels/copy_1d", "template.pbtxt"}) {
    EXPECT_TRUE(LooksLikePath(path)) << path;
  }
}

}  // namespace
}  // namespace hone::cli
