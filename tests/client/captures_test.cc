// Capture files as `hone` reads them, and what it asks a scripted daemon then.
#include "client/cli/captures.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "runtime/base/files.h"
#include "tests/client/cli_fixture.h"
#include "tests/testing/status_matchers.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// `more`: further fields.
std::string Line(int64_t n, int64_t launches, int64_t last, const std::string& more = "") {
  return absl::StrCat("problem { launches: ", launches, " first_at_unix_ms: ", last - 10,
                      " last_at_unix_ms: ", last,
                      " template { name: 'copy' } params { key: 'n' value { integer: ", n, " } } ",
                      more, "}\n");
}

class CapturesTest : public CliTest {
 protected:
  CapturesTest() : directory_(TemporaryDirectory::Create().value()) {}

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = JoinPath(directory_.path(), name);
    EXPECT_THAT(WriteNewFile(path, text), IsOk());
    return path;
  }
  Captures Read() const {
    const auto captures = ReadCaptures(directory_.path());
    EXPECT_THAT(captures, IsOk());
    return *captures;
  }
  // What the fake answers about every problem.
  void AnswerWithBucket(const std::string& key, int64_t n, bool tuned) {
    service().explained.set_bucket_key(key);
    (*service().explained.mutable_bucket_params())["n"].set_integer(n);
    service().explained.set_bucket_tuned(tuned);
  }
  int TuneFrom(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"tune", "--from", directory_.path()});
    return Hone(more);
  }

  const TemporaryDirectory directory_;
};

TEST_F(CapturesTest, RecordsOfSeveralProcessesAreAddedUp) {
  Write("capture-1-a.pbtxt", absl::StrCat("# header\n", Line(8, 5, 100), Line(4, 1, 200)));
  Write("capture-2-b.pbtxt", absl::StrCat(Line(4, 7, 150,
                                               "buffers { name: 'x' contents_file: "
                                               "'../../capture-2-b.1.x.bin' } "),
                                          Line(4, 1, 300, "numerics: SAME_BITS_AS_DEFAULT ")));
  const Captures captures = Read();
  EXPECT_THAT(captures.notes, IsEmpty());
  ASSERT_THAT(captures.problems, SizeIs(3));
  EXPECT_EQ(captures.problems[0].Text(), "copy n=4");
  EXPECT_EQ(captures.problems[0].problem.launches(), 8);
  EXPECT_EQ(captures.problems[0].problem.first_at_unix_ms(), 140);
  EXPECT_EQ(captures.problems[0].problem.last_at_unix_ms(), 200);
  EXPECT_EQ(captures.problems[0].processes, 2);
  EXPECT_EQ(ContentsOf(captures.problems[0]).at("x"),
            JoinPath(directory_.path(), "capture-2-b.1.x.bin"))
      << "contents are looked for beside the record only";
  EXPECT_EQ(captures.problems[1].problem.launches(), 5);
  EXPECT_EQ(captures.problems[2].problem.numerics(), v1::SAME_BITS_AS_DEFAULT);
}

TEST_F(CapturesTest, WhatCannotBeReadIsPassedOver) {
  const std::string torn = Line(16, 1, 1);
  const std::string file = Write(
      "capture-1-a.pbtxt", absl::StrCat(Line(8, 1, 1), "problem { nonsense\n",
                                        Line(4, 1, 1, "some_later_field: 7 a_message { x: 'y' } "),
                                        torn.substr(0, torn.size() - 1)));
  Write("other.pbtxt", "not ours");
  const std::string target = Write("secret", Line(99, 1, 1));
  ASSERT_EQ(::symlink(target.c_str(), JoinPath(directory_.path(), "capture-2-b.pbtxt").c_str()), 0);
  const Captures captures = Read();
  EXPECT_THAT(captures.problems, SizeIs(2)) << "a line without its end is not read";
  EXPECT_THAT(captures.notes, testing::ElementsAre(HasSubstr(absl::StrCat(file, ":2: column")),
                                                   HasSubstr("not a regular file")));
  EXPECT_THAT(ReadCaptures(file)->problems, SizeIs(2));
  EXPECT_THAT(ReadCaptures(JoinPath(directory_.path(), "none")), Not(IsOk()));
}

TEST_F(CapturesTest, AHostileRecordCostsItselfOnly) {
  std::string deep = "problem { unknown ";
  for (int i = 0; i < 100'000; ++i) deep += "{ a ";
  for (int i = 0; i < 100'000; ++i) deep += "} ";
  std::string escape = Line(4, 1, 1), long_name = Line(4, 1, 1);
  escape.replace(escape.find("'copy'"), 6, "'\\033[31mcopy\\n'");
  long_name.replace(long_name.find("'copy'"), 6, "'" + std::string(100'000, 'c') + "'");
  const std::string file =
      Write("capture-1-a.pbtxt",
            absl::StrCat(deep, "}\n", escape, long_name,
                         Line(8, std::numeric_limits<int64_t>::max(), 1), Line(8, 5, 1)));
  const Captures captures = Read();
  ASSERT_THAT(captures.problems, SizeIs(1));
  EXPECT_EQ(captures.problems[0].problem.launches(), std::numeric_limits<int64_t>::max());
  EXPECT_THAT(captures.notes,
              testing::ElementsAre(HasSubstr(absl::StrCat(file, ":1: column")),
                                   HasSubstr(":2: '\\x1b[31mcopy\\n' (10 bytes) is no name"),
                                   HasSubstr(":3: 'ccc")));
}

TEST_F(CapturesTest, ProblemsOfOneBucketAreOneTune) {
  Write("capture-1-a.pbtxt",
        absl::StrCat(Line(5, 2, 1), Line(6, 3, 1, "target { architecture: 'cpu' } ")));
  AnswerWithBucket("abcdef", 4, false);
  v1::TuneEvent& finished = service().tune_events.emplace_back();
  finished.mutable_finished()->set_measured(1);
  ASSERT_EQ(TuneFrom({"--evaluations", "7"}), kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("copy n=4: 5 launches of 2 problems"),
                          HasSubstr("1 tuned, 0 tuned already, 0 failed")));
  EXPECT_EQ(service().calls("ExplainKey"), 2);
  EXPECT_EQ(service().calls("Tune"), 1);
  EXPECT_EQ(service().last_tune().params().at("n").integer(), 4);
  EXPECT_EQ(service().last_tune().template_().name(), "copy");
  EXPECT_EQ(service().last_tune().target().architecture(), "cpu") << "of the most launched";
  EXPECT_EQ(service().last_tune().budget().evaluations_max(), 7);
}

TEST_F(CapturesTest, WhatIsTunedIsTunedAgainOnlyByForce) {
  Write("capture-1-a.pbtxt", Line(5, 2, 1));
  AnswerWithBucket("abcdef", 4, true);
  v1::TuneEvent& finished = service().tune_events.emplace_back();
  finished.mutable_finished()->set_measured(1);
  ASSERT_EQ(TuneFrom(), kExitOk) << err_;
  EXPECT_EQ(service().calls("Tune"), 0);
  EXPECT_THAT(out_, HasSubstr("copy n=4: tuned already (2 launches of 1 problem)"));
  ASSERT_EQ(TuneFrom({"--force"}), kExitOk) << err_;
  EXPECT_EQ(service().calls("Tune"), 1);
  EXPECT_TRUE(service().last_tune().force());
  // Standard output has only the events of the tunes then, one a line.
  ASSERT_EQ(TuneFrom({"--force", "-o", "json"}), kExitOk);
  EXPECT_THAT(out_, testing::StartsWith("{\"finished\""));
  EXPECT_EQ(out_.find('\n'), out_.size() - 1);
  EXPECT_THAT(err_, HasSubstr("1 tuned, 0 tuned already"));
}

TEST_F(CapturesTest, OneFailureDoesNotStopTheOthersButNoDaemonDoes) {
  Write("capture-1-a.pbtxt", absl::StrCat(Line(5, 2, 1), Line(6, 1, 1)));
  AnswerWithBucket("", 4, false);
  v1::TuneEvent& finished = service().tune_events.emplace_back();
  finished.mutable_finished()->set_measured(1);
  service().FailNext("Tune", grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no GPU"));
  EXPECT_EQ(TuneFrom(), kExitError);
  EXPECT_EQ(service().calls("Tune"), 2);
  EXPECT_THAT(err_, AllOf(HasSubstr("no GPU"), HasSubstr("1 of 2 captured problems")));
  service().FailNext("Tune", grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "not a tuner"));
  EXPECT_EQ(TuneFrom(), kExitError);
  EXPECT_EQ(service().calls("Tune"), 3);
  EXPECT_THAT(err_, HasSubstr("not a tuner"));
}

TEST_F(CapturesTest, TheListNeedsNoDaemon) {
  Write("capture-1-a.pbtxt", absl::StrCat(Line(5, 2, 1'700'000'000'000), Line(6, 30, 1)));
  ASSERT_EQ(RunMain({"hone", "--endpoint", "unix:/nowhere", "tune", "--from", directory_.path(),
                     "--list"}),
            kExitOk)
      << err_;
  EXPECT_THAT(out_, testing::ContainsRegex("1 +copy +n=6 +30"));
  ASSERT_EQ(TuneFrom({"--list", "-o", "json"}), kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("\"launches\": \"30\""));
}

TEST_F(CapturesTest, FromStandsAlone) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"tune", "copy", "n=1", "--from", "x"},
        {"tune", "--from", "x", "--watch"},
        {"tune", "--from", "x", "--config", "A=1"},
        {"tune", "--list"},
        {"tune"},
        {"run", "copy", "--from", "x"}}) {
    EXPECT_EQ(Hone(arguments), kExitUsage) << err_;
  }
  EXPECT_EQ(Hone({"tune", "--from", JoinPath(directory_.path(), "none")}), kExitError);
  EXPECT_THAT(err_, HasSubstr("No such file"));
  ASSERT_EQ(TuneFrom(), kExitOk);
  EXPECT_THAT(out_, HasSubstr("No launch is recorded"));
}

}  // namespace
}  // namespace hone::cli
