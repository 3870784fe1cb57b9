#include "server/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_replace.h"
#include "runtime/kernel/field_error.h"
#include "server/nearest_names.h"
#include "server/template_directory.h"
#include "tests/testing/in_memory_store.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Not marked as a text proto: tests count its lines.
constexpr char kText[] = R"text(name: "NAME"
version: "1"
source: "k.cu"
params { name: "n" size { dynamic: true min: 0 } }
tunables { name: "XBLOCK" values: [64, 128] default: 64 }
arguments { name: "dst" buffer { dtype: "F32" shape: "n" access: WRITE } }
arguments { name: "n" scalar { type: I64 value: "n" } }
steps {
  entry: "k<${XBLOCK}>"
  launch { grid_x: "ceil_div(n, XBLOCK)" block_x: "XBLOCK" }
}
check { reference: "r" output: "dst" exact: true }
)text";

std::string TextFor(const std::string& name) {
  return absl::StrReplaceAll(kText, {{"NAME", name}});
}

v1::KernelTemplate MessageFor(const std::string& name, const std::string& source = "// source\n") {
  v1::KernelTemplate message;
  EXPECT_THAT(ParseTemplateText(TextFor(name), message, nullptr), IsOk());
  v1::SourceFile& file = *message.add_files();
  file.set_name("k.cu");
  file.set_content(source);
  return message;
}

class CatalogTest : public testing::Test {
 protected:
  CatalogTest() {
    std::string pattern = testing::TempDir() + "/catalog-XXXXXX";
    root_ = mkdtemp(pattern.data());
    kernels_ = root_ + "/kernels";
    fs::create_directory(kernels_);
  }
  ~CatalogTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }
  // A template directory; `text` in place of the usual one.
  void AddTemplate(const std::string& name, const std::string& text = "") {
    Write(kernels_ + "/" + name + "/template.pbtxt", text.empty() ? TextFor(name) : text);
    Write(kernels_ + "/" + name + "/k.cu", "// source\n");
  }
  std::unique_ptr<Catalog> Load() { return Catalog::Create(kernels_, &store_); }
  // The only problem there is.
  CatalogProblem OnlyProblem(const Catalog& catalog) {
    const std::vector<CatalogProblem> problems = catalog.Problems();
    EXPECT_THAT(problems, SizeIs(1));
    return problems.empty() ? CatalogProblem() : problems[0];
  }

  std::string root_;
  std::string kernels_;
  InMemoryStore store_;
};

TEST_F(CatalogTest, LoadsTemplatesWithTheirFilesAndReadme) {
  AddTemplate("one");
  AddTemplate("two");
  Write(kernels_ + "/two/README.md", "# Two\n");
  Write(kernels_ + "/notes/readme.txt", "no template here");
  Write(kernels_ + "/.git/template.pbtxt", "hidden");
  const auto catalog = Load();
  EXPECT_THAT(catalog->Problems(), IsEmpty());
  ASSERT_THAT(catalog->List(), SizeIs(2));
  const auto two = catalog->Find("two", "");
  ASSERT_THAT(two, IsOk());
  EXPECT_EQ((*two)->readme, "# Two\n");
  EXPECT_EQ((*two)->origin, TemplateOrigin::kCatalog);
  EXPECT_EQ((*two)->tunable_points, 2);
  EXPECT_EQ((*two)->message.files(0).content(), "// source\n");
  EXPECT_THAT(catalog->Find("", (*two)->kernel_template->digest()), IsOkAndHolds(*two));
}

TEST_F(CatalogTest, TheShippedKernelsLoadWithoutProblems) {
  const char* kernels = std::getenv("HONE_KERNELS");
  if (kernels == nullptr) GTEST_SKIP() << "HONE_KERNELS is not set";
  const auto catalog = Catalog::Create(kernels, nullptr);
  for (const CatalogProblem& problem : catalog->Problems()) {
    ADD_FAILURE() << problem.location << ": " << problem.message;
  }
  EXPECT_THAT(catalog->Find("copy_1d", ""), IsOk());
}

TEST_F(CatalogTest, ABadTemplateIsReportedWithFileLineAndFieldAndStopsNoOther) {
  AddTemplate("good");
  AddTemplate("bad",
              absl::StrReplaceAll(TextFor("bad"), {{"ceil_div(n, XBLOCK)", "ceil_div(n,)"}}));
  const auto catalog = Load();
  EXPECT_THAT(catalog->Find("good", ""), IsOk());
  EXPECT_THAT(catalog->Find("bad", ""), StatusIs(absl::StatusCode::kNotFound, testing::_));
  const CatalogProblem problem = OnlyProblem(*catalog);
  EXPECT_EQ(problem.location, kernels_ + "/bad/template.pbtxt:10:12 steps[0].launch.grid_x");
  EXPECT_THAT(problem.message, HasSubstr("column 12"));
}

TEST_F(CatalogTest, SyntaxErrorsAndUnknownFieldsPointAtTheirLine) {
  AddTemplate("bad", TextFor("bad") + "frobnicate: 1\n");
  const CatalogProblem problem = OnlyProblem(*Load());
  EXPECT_THAT(problem.location, HasSubstr("/bad/template.pbtxt:13:"));
  EXPECT_THAT(problem.message, HasSubstr("frobnicate"));
}

TEST_F(CatalogTest, ErrorsOfMeaningPointAtTheirLineToo) {
  AddTemplate("bad", absl::StrReplaceAll(TextFor("bad"), {{"default: 64", "default: 65"}}));
  const CatalogProblem problem = OnlyProblem(*Load());
  EXPECT_THAT(problem.location, HasSubstr("template.pbtxt:5:"));
  EXPECT_THAT(problem.location, HasSubstr("tunables[0].default"));
}

TEST_F(CatalogTest, MissingFilesAreNamed) {
  AddTemplate("bad");
  fs::remove(kernels_ + "/bad/k.cu");
  const CatalogProblem problem = OnlyProblem(*Load());
  EXPECT_THAT(problem.location, HasSubstr("template.pbtxt:3:1 source"));
  EXPECT_THAT(problem.message, HasSubstr("k.cu"));
}

TEST_F(CatalogTest, NothingIsReadFromOutsideTheTemplatesDirectory) {
  Write(root_ + "/secret.h", "secret");
  AddTemplate("dots", TextFor("dots") + "headers: \"../../secret.h\"\n");
  AddTemplate("link", TextFor("link") + "headers: \"l.h\"\n");
  fs::create_symlink(root_ + "/secret.h", kernels_ + "/link/l.h");
  AddTemplate("inside", TextFor("inside") + "headers: \"l.h\"\n");
  fs::create_symlink("k.cu", kernels_ + "/inside/l.h");
  fs::create_directory(root_ + "/elsewhere");
  Write(root_ + "/elsewhere/template.pbtxt", TextFor("elsewhere"));
  Write(root_ + "/elsewhere/k.cu", "");
  fs::create_directory_symlink(root_ + "/elsewhere", kernels_ + "/elsewhere");
  const auto catalog = Load();
  EXPECT_THAT(catalog->Find("inside", ""), IsOk());
  std::map<std::string, std::string> problems;
  for (const CatalogProblem& problem : catalog->Problems()) {
    problems[problem.location.substr(kernels_.size() + 1)] = problem.message;
  }
  ASSERT_THAT(problems, SizeIs(3));
  EXPECT_THAT(problems["dots/template.pbtxt:13:1 headers[0]"], HasSubstr("\"..\""));
  EXPECT_THAT(problems["link/template.pbtxt:13:1 headers[0]"], HasSubstr("link out of"));
  EXPECT_THAT(problems["elsewhere"], HasSubstr("link out of the catalog"));
}

TEST_F(CatalogTest, TemplatesSideBySideShareTheHeadersOfInclude) {
  AddTemplate("one", TextFor("one") + "headers: \"shared.h\"\nheaders: \"own.h\"\n");
  Write(kernels_ + "/one/own.h", "// own");
  AddTemplate("two", TextFor("two") + "headers: \"shared.h\"\n");
  AddTemplate("link", TextFor("link") + "headers: \"secret.h\"\n");
  Write(kernels_ + "/include/shared.h", "// shared");
  Write(kernels_ + "/include/own.h", "// not this one");
  Write(root_ + "/secret.h", "secret");
  fs::create_symlink(root_ + "/secret.h", kernels_ + "/include/secret.h");
  const auto catalog = Load();
  const auto files = [&](const std::string& name) {
    std::map<std::string, std::string> contents;
    const auto entry = catalog->Find(name, "");
    if (!entry.ok()) return contents;
    for (const v1::SourceFile& file : (*entry)->message.files()) {
      contents[file.name()] = file.content();
    }
    return contents;
  };
  EXPECT_EQ(files("one")["shared.h"], "// shared");
  EXPECT_EQ(files("one")["own.h"], "// own");
  EXPECT_EQ(files("two")["shared.h"], "// shared");
  const CatalogProblem problem = OnlyProblem(*catalog);
  EXPECT_THAT(problem.location, HasSubstr("link/template.pbtxt:13:1 headers[0]"));
  EXPECT_THAT(problem.message, HasSubstr("link out of"));
}

TEST_F(CatalogTest, SpecialAndOversizedFilesAreRefusedWithoutWaiting) {
  AddTemplate("fifo", TextFor("fifo") + "headers: \"f.h\"\n");
  ASSERT_EQ(mkfifo((kernels_ + "/fifo/f.h").c_str(), 0600), 0);
  AddTemplate("large");
  Write(kernels_ + "/large/k.cu", std::string((1 << 20) + 1, ' '));
  const std::vector<CatalogProblem> problems = Load()->Problems();
  ASSERT_THAT(problems, SizeIs(2));
  EXPECT_THAT(problems[0].message, HasSubstr("not a regular file"));
  EXPECT_THAT(problems[1].message, HasSubstr("larger than 1048576"));
}

TEST_F(CatalogTest, NameAndDirectoryAgreeAndFilesComeFromDisk) {
  AddTemplate("one", TextFor("other"));
  AddTemplate("two", TextFor("two") + "files { name: \"k.cu\" content: \"x\" }\n");
  const std::vector<CatalogProblem> problems = Load()->Problems();
  ASSERT_THAT(problems, SizeIs(2));
  EXPECT_THAT(problems[0].location, HasSubstr("/one/template.pbtxt:1:1 name"));
  EXPECT_THAT(problems[1].location, HasSubstr("files"));
}

TEST_F(CatalogTest, AnUnreadableCatalogIsAProblemAndRegisteringStillWorks) {
  const auto catalog = Catalog::Create(root_ + "/nowhere", &store_);
  EXPECT_THAT(OnlyProblem(*catalog).message, HasSubstr("nowhere"));
  EXPECT_THAT(catalog->Register(MessageFor("one"), {}), IsOk());
  EXPECT_THAT(catalog->Find("one", ""), IsOk());
}

TEST_F(CatalogTest, NotFoundNamesTheNearest) {
  AddTemplate("copy_1d");
  AddTemplate("copy_2d");
  AddTemplate("softmax");
  const auto catalog = Load();
  EXPECT_THAT(catalog->Find("copy1d", ""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("did you mean copy_1d")));
  EXPECT_THAT(catalog->Find("softmx", ""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("did you mean softmax?")));
  EXPECT_THAT(catalog->Find("zzzzzz", ""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none of a similar name")));
  EXPECT_THAT(catalog->Find("", std::string(64, '0')),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("digest")));
  EXPECT_THAT(catalog->Find("", ""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("neither")));
  const std::string digest = (*catalog->Find("softmax", ""))->kernel_template->digest();
  EXPECT_THAT(catalog->Find("copy_1d", digest),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("is softmax")));
}

TEST_F(CatalogTest, RegisteredTemplatesSurviveARestart) {
  std::string digest;
  {
    const auto catalog = Load();
    const auto registered = catalog->Register(MessageFor("mine"), {});
    ASSERT_THAT(registered, IsOk());
    EXPECT_FALSE(registered->already_registered);
    EXPECT_THAT(registered->warnings, IsEmpty());
    digest = registered->entry->kernel_template->digest();
  }
  const auto catalog = Load();
  EXPECT_THAT(catalog->Problems(), IsEmpty());
  const auto found = catalog->Find("mine", "");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ((*found)->kernel_template->digest(), digest);
  EXPECT_EQ((*found)->origin, TemplateOrigin::kRegistered);
  EXPECT_GT((*found)->registered_at_unix_ms, 0);
  const auto again = catalog->Register(MessageFor("mine"), {});
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->already_registered);
}

TEST_F(CatalogTest, OneNameAndVersionMeansOneTemplate) {
  const auto catalog = Load();
  ASSERT_THAT(catalog->Register(MessageFor("mine", "// first\n"), {}), IsOk());
  EXPECT_THAT(catalog->Register(MessageFor("mine", "// second\n"), {}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("another version")));
  v1::KernelTemplate newer = MessageFor("mine", "// second\n");
  newer.set_version("2");
  ASSERT_THAT(catalog->Register(newer, {}), IsOk());
  EXPECT_EQ((*catalog->Find("mine", ""))->message.version(), "2");  // the newest
  EXPECT_THAT(catalog->List(), SizeIs(2));
}

TEST_F(CatalogTest, CatalogNamesComeFirstAndKeepTheirVersion) {
  AddTemplate("one");
  const auto catalog = Load();
  const auto same = catalog->Register(MessageFor("one"), {});
  ASSERT_THAT(same, IsOk());
  EXPECT_TRUE(same->already_registered);
  EXPECT_EQ(same->entry->origin, TemplateOrigin::kCatalog);
  EXPECT_THAT(catalog->Register(MessageFor("one", "// other\n"), {}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("catalog")));
  v1::KernelTemplate newer = MessageFor("one", "// other\n");
  newer.set_version("2");
  const auto registered = catalog->Register(newer, {});
  ASSERT_THAT(registered, IsOk());
  EXPECT_EQ((*catalog->Find("one", ""))->origin, TemplateOrigin::kCatalog);
  EXPECT_THAT(catalog->Find("one", registered->entry->kernel_template->digest()),
              IsOkAndHolds(registered->entry));
}

TEST_F(CatalogTest, NamespacesKeepNamesApartAndDigestsResolveEverywhere) {
  {
    const auto catalog = Load();
    const auto a = catalog->Register(MessageFor("mine", "// a\n"), {.name_space = "uid:1"});
    const auto b = catalog->Register(MessageFor("mine", "// b\n"), {.name_space = "uid:2"});
    ASSERT_THAT(a, IsOk());
    ASSERT_THAT(b, IsOk());
    // Both may register the same body.
    ASSERT_THAT(catalog->Register(MessageFor("both"), {.name_space = "uid:1"}), IsOk());
    ASSERT_THAT(catalog->Register(MessageFor("both"), {.name_space = "uid:2"}), IsOk());
  }
  const auto catalog = Load();
  const auto a = catalog->Find("mine", "", "uid:1");
  const auto b = catalog->Find("mine", "", "uid:2");
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  EXPECT_NE((*a)->kernel_template->digest(), (*b)->kernel_template->digest());
  EXPECT_THAT(catalog->Find("mine", ""), StatusIs(absl::StatusCode::kNotFound, HasSubstr("mine")));
  EXPECT_THAT(catalog->Find("", (*a)->kernel_template->digest(), "uid:2"), IsOkAndHolds(*a));
  EXPECT_THAT(catalog->Find("both", "", "uid:1"), IsOk());
  EXPECT_THAT(catalog->Find("both", "", "uid:2"), IsOk());
}

TEST_F(CatalogTest, InlineTemplatesMayChangeUnderOneVersion) {
  const auto catalog = Load();
  const RegisterOptions inline_template{.inline_template = true};
  const auto first = catalog->Register(MessageFor("mine", "// 1\n"), inline_template);
  const auto second = catalog->Register(MessageFor("mine", "// 2\n"), inline_template);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_THAT(catalog->Find("mine", ""), IsOkAndHolds(second->entry));
  EXPECT_THAT(catalog->Find("", first->entry->kernel_template->digest()),
              IsOkAndHolds(first->entry));
  EXPECT_TRUE(catalog->Register(MessageFor("mine", "// 1\n"), inline_template)->already_registered);
  // They claim no version.
  EXPECT_THAT(catalog->Register(MessageFor("mine", "// 3\n"), {}), IsOk());
  EXPECT_THAT(catalog->Register(MessageFor("mine", "// 4\n"), {}),
              StatusIs(absl::StatusCode::kAlreadyExists, testing::_));
}

TEST_F(CatalogTest, ValidateOnlyChecksAndKeepsNothing) {
  const auto catalog = Load();
  const auto checked = catalog->Register(MessageFor("mine"), {.validate_only = true});
  ASSERT_THAT(checked, IsOk());
  EXPECT_THAT(catalog->Find("mine", ""), StatusIs(absl::StatusCode::kNotFound, testing::_));
  EXPECT_THAT(*store_.ListTemplates(), IsEmpty());
  v1::KernelTemplate bad = MessageFor("mine");
  bad.mutable_tunables(0)->set_default_(65);
  EXPECT_THAT(catalog->Register(bad, {.validate_only = true}).status(),
              testing::ResultOf([](const absl::Status& s) { return FieldOf(s).value_or(""); },
                                "tunables[0].default"));
}

TEST_F(CatalogTest, RegisteringAdvisesAboutTemplatesThatAcceptTooLittle) {
  v1::KernelTemplate message = MessageFor("mine");
  message.mutable_arguments(0)->mutable_buffer()->set_alignment_bytes("16");
  const auto registered = Load()->Register(message, {});
  ASSERT_THAT(registered, IsOk());
  EXPECT_THAT(registered->warnings, ElementsAre(HasSubstr("no config accepts every")));
}

TEST_F(CatalogTest, AStoreThatFailsRegistersNothingButLetsATuneGoOn) {
  const auto catalog = Load();
  store_.FailPuts(absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(catalog->Register(MessageFor("mine"), {}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  EXPECT_THAT(catalog->Find("mine", ""), StatusIs(absl::StatusCode::kNotFound, testing::_));
  const auto sent_along = catalog->Register(MessageFor("mine"), {.inline_template = true});
  ASSERT_THAT(sent_along, IsOk());
  EXPECT_THAT(sent_along->warnings, ElementsAre(HasSubstr("disk full")));
  EXPECT_THAT(catalog->Find("mine", ""), IsOk());
}

TEST_F(CatalogTest, AStoreThatCannotBeReadIsAProblemAndTheCatalogIsServed) {
  AddTemplate("one");
  store_.FailGets(absl::UnavailableError("busy"));
  const auto catalog = Load();
  EXPECT_THAT(OnlyProblem(*catalog).message, HasSubstr("busy"));
  EXPECT_THAT(catalog->Find("one", ""), IsOk());
}

TEST_F(CatalogTest, AStoredTemplateThatNoLongerParsesIsAProblem) {
  ASSERT_THAT(store_.PutTemplate({.digest = std::string(64, 'a'),
                                  .name = "old",
                                  .encoded = "\xff\xff",
                                  .origin = "registered"}),
              IsOk());
  const auto catalog = Load();
  EXPECT_THAT(OnlyProblem(*catalog).location, HasSubstr("old"));
}

TEST_F(CatalogTest, ReloadFindsWhatChangedAndKeepsOldDigests) {
  AddTemplate("one");
  const auto catalog = Load();
  const CatalogEntryPtr before = *catalog->Find("one", "");
  Write(kernels_ + "/one/k.cu", "// edited\n");
  AddTemplate("two");
  catalog->Reload();
  const CatalogEntryPtr after = *catalog->Find("one", "");
  EXPECT_NE(before->kernel_template->digest(), after->kernel_template->digest());
  EXPECT_THAT(catalog->Find("one", before->kernel_template->digest()), IsOkAndHolds(before));
  EXPECT_THAT(catalog->Find("two", ""), IsOk());
  fs::remove_all(kernels_ + "/one");
  catalog->Reload();
  EXPECT_THAT(catalog->Find("one", ""), StatusIs(absl::StatusCode::kNotFound, testing::_));
}

TEST_F(CatalogTest, ATemplateWaitsForItsHeaderSet) {
  AddTemplate("one", TextFor("one") + "header_sets: \"cutlass\"\n");
  const auto catalog = Load();
  const CatalogProblem problem = OnlyProblem(*catalog);
  EXPECT_THAT(problem.location, HasSubstr("header_sets[0]"));
  EXPECT_THAT(problem.message, HasSubstr("\"cutlass\" is not registered"));
  const std::string digest(64, 'c');
  ASSERT_THAT(store_.PutHeaderSet(digest, "cutlass", {{"a.h", "//"}}), IsOk());
  catalog->Reload();
  EXPECT_THAT(catalog->Problems(), IsEmpty());
  EXPECT_THAT((*catalog->Find("one", ""))->kernel_template->spec().header_sets,
              ElementsAre(digest));
}

TEST_F(CatalogTest, ARegisteredTemplateKeepsTheHeaderSetItWasRegisteredWith) {
  const std::string first(64, '1');
  ASSERT_THAT(store_.PutHeaderSet(first, "mylib", {{"a.h", "// 1"}}), IsOk());
  v1::KernelTemplate message = MessageFor("mine");
  message.add_header_sets("mylib");
  ASSERT_THAT(Load()->Register(message, {}), IsOk());
  ASSERT_THAT(store_.PutHeaderSet(std::string(64, '2'), "mylib", {{"a.h", "// 2"}}), IsOk());
  EXPECT_THAT((*Load()->Find("mine", ""))->kernel_template->spec().header_sets, ElementsAre(first));
}

TEST_F(CatalogTest, LooksUpRegistersAndReloadsAtOnce) {
  AddTemplate("one");
  const auto catalog = Load();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&catalog, t] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_THAT(catalog->Find("one", ""), IsOk());
        const std::string name = "t" + std::to_string(t) + "_" + std::to_string(i);
        EXPECT_THAT(catalog->Register(MessageFor(name), {}), IsOk());
        EXPECT_THAT(catalog->Find(name, ""), IsOk());
        if (i % 10 == t) catalog->Reload();
        EXPECT_FALSE(catalog->List().empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(catalog->List(), SizeIs(61));
}

TEST_F(CatalogTest, OneBodyRegisteredByManyAtOnceIsOneTemplate) {
  const auto catalog = Load();
  std::atomic<int> fresh{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const auto registered = catalog->Register(MessageFor("mine"), {});
      EXPECT_THAT(registered, IsOk());
      if (registered.ok() && !registered->already_registered) ++fresh;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fresh, 1);
  EXPECT_EQ(store_.counters().template_puts, 1);
}

TEST(NearestNamesTest, CountsEditsAndRanks) {
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("same", "same"), 0u);
  EXPECT_THAT(NearestNames("sofmax", {"row_sum", "softmax", "softmax_2"}, 3),
              ElementsAre("softmax"));
  EXPECT_THAT(NearestNames("softmax", {"row_sum", "softmax_2", "softmax"}, 3),
              ElementsAre("softmax", "softmax_2"));
  EXPECT_THAT(NearestNames("copy", {"copy_1d", "copy_2d"}, 1), ElementsAre("copy_1d"));
}

}  // namespace
}  // namespace hone
