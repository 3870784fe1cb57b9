#include "client/cpp/launch_capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/text_format.h"
#include "hone/v1/capture.pb.h"
#include "runtime/base/files.h"
#include "tests/testing/forking.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

// Of a process, sorted by name.
std::vector<std::string> FilesIn(const std::string& directory, pid_t pid = ::getpid()) {
  std::vector<std::string> files;
  const auto names = ListDirectory(directory);
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    if (absl::StartsWith(name, absl::StrCat("capture-", pid, "-")) &&
        absl::EndsWith(name, ".pbtxt")) {
      files.push_back(JoinPath(directory, name));
    }
  }
  return files;
}

// Everything that whole lines of the process's file say. Every one must be readable.
std::vector<v1::CapturedProblem> ProblemsIn(const std::string& directory, pid_t pid = ::getpid()) {
  std::vector<v1::CapturedProblem> problems;
  for (const std::string& file : FilesIn(directory, pid)) {
    const std::string text = ReadFile(file).value();
    v1::Capture capture;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text.substr(0, text.rfind('\n') + 1),
                                                              &capture))
        << text;
    problems.insert(problems.end(), capture.problem().begin(), capture.problem().end());
  }
  return problems;
}

std::string Problem(int64_t n) {
  return absl::StrCat("template { name: \"copy_1d\" } params { key: \"n\" value { integer: ", n,
                      " } }");
}

void CountOne(LaunchCapture& capture, int64_t n) {
  capture.Count(absl::StrCat(n), false, [n] { return Problem(n); });
}

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

// Runs `work` in a forked child, which ends with its result.
pid_t Fork(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work() ? 0 : 1);
  return child;
}
int StatusOfChild(pid_t child) {
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

class LaunchCaptureTest : public testing::Test {
 protected:
  LaunchCaptureTest() : directory_(TemporaryDirectory::Create().value()) {}

  // A directory that is not there yet.
  std::string Directory() const { return JoinPath(directory_.path(), "a/captures"); }
  LaunchCapture& Capture(int64_t bytes_max = 1'000'000, bool contents = false) {
    return *LaunchCapture::For(
        {.directory = Directory(), .bytes_max = bytes_max, .contents = contents});
  }

  TemporaryDirectory directory_;
};

TEST_F(LaunchCaptureTest, WithoutADirectoryThereIsNone) {
  EXPECT_EQ(LaunchCapture::For({}), nullptr);
  EXPECT_EQ(&Capture(), &Capture()) << "one a directory";
  EXPECT_FALSE(PathExists(Directory())) << "nothing was launched";
  EXPECT_THAT(Capture().Status(), HasSubstr("no launch yet"));
}

TEST_F(LaunchCaptureTest, AProblemIsWrittenWhenItIsFirstSeenAndCountedLater) {
  LaunchCapture& capture = Capture();
  CountOne(capture, 4096);
  CountOne(capture, 4096);
  CountOne(capture, 5000);
  std::vector<v1::CapturedProblem> problems = ProblemsIn(Directory());
  ASSERT_THAT(problems, SizeIs(2));
  EXPECT_EQ(problems[0].template_().name(), "copy_1d");
  EXPECT_EQ(problems[0].params().at("n").integer(), 4096);
  EXPECT_EQ(problems[0].launches(), 1);
  EXPECT_GT(problems[0].first_at_unix_ms(), int64_t{1'700'000'000'000});
  CountOne(capture, 4096);
  capture.Flush();
  problems = ProblemsIn(Directory());
  ASSERT_THAT(problems, SizeIs(2));
  EXPECT_EQ(problems[0].launches(), 3);
  EXPECT_EQ(problems[1].launches(), 1);
  EXPECT_GE(problems[0].last_at_unix_ms(), problems[0].first_at_unix_ms());
  // Appended to what replaced the first file.
  CountOne(capture, 6000);
  EXPECT_THAT(ProblemsIn(Directory()), SizeIs(3));
  EXPECT_THAT(capture.Status(), AllOf(StartsWith("recording into"), HasSubstr("3 problems")));
}

TEST_F(LaunchCaptureTest, WhatIsWrittenIsForItsOwnerOnly) {
  const mode_t before = ::umask(0);
  LaunchCapture& capture = Capture(1'000'000, /*contents=*/true);
  CountOne(capture, 1);
  const auto contents = capture.StoreContents("src/../x", "bytes");
  ASSERT_THAT(contents, IsOk());
  // A link in the way of what will replace the file is not followed.
  const std::string file = FilesIn(Directory()).at(0);
  const std::string name = BaseName(file);
  const std::string elsewhere = JoinPath(directory_.path(), "elsewhere");
  ASSERT_THAT(WriteNewFile(elsewhere, "mine"), IsOk());
  const std::string replacement =
      JoinPath(Directory(), absl::StrCat(".", name.substr(0, name.rfind('.')), ".new"));
  ASSERT_EQ(::symlink(elsewhere.c_str(), replacement.c_str()), 0);
  capture.Flush();
  ::umask(before);
  EXPECT_EQ(ModeOf(Directory()), 0700u);
  EXPECT_EQ(ModeOf(JoinPath(directory_.path(), "a")), 0700u);
  EXPECT_EQ(ModeOf(file), 0600u);
  EXPECT_EQ(ModeOf(JoinPath(Directory(), *contents)), 0600u);
  EXPECT_THAT(ReadFile(elsewhere), IsOkAndHolds("mine"));
  EXPECT_THAT(ProblemsIn(Directory()), SizeIs(1));
}

TEST_F(LaunchCaptureTest, ThreadsCountTogether) {
  constexpr int kThreads = 4, kRounds = 500, kProblems = 50;
  LaunchCapture& capture = Capture();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        CountOne(capture, i % kProblems);
        if (i % 100 == 0) capture.Flush();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Whoever wrote last wrote what the others left to it.
  EXPECT_THAT(ProblemsIn(Directory()), SizeIs(kProblems));
  capture.Flush();
  int64_t launches = 0;
  for (const v1::CapturedProblem& problem : ProblemsIn(Directory())) launches += problem.launches();
  EXPECT_EQ(launches, kThreads * kRounds);
}

TEST_F(LaunchCaptureTest, WhenItIsFullNewProblemsAreLeftOutAndKnownOnesCounted) {
  LaunchCapture& capture = Capture(/*bytes_max=*/2000);
  testing::internal::CaptureStderr();
  for (int n = 0; n < 100; ++n) CountOne(capture, n);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("HONE_CAPTURE_MAX_MB"));
  EXPECT_EQ(said.find('\n'), said.size() - 1) << "said once";
  EXPECT_THAT(capture.Status(), StartsWith("full: "));
  const size_t known = ProblemsIn(Directory()).size();
  EXPECT_GT(known, 2u);
  EXPECT_LT(known, 20u);
  CountOne(capture, 0);
  capture.Flush();
  EXPECT_EQ(ProblemsIn(Directory()).size(), known);
  EXPECT_EQ(ProblemsIn(Directory())[0].launches(), 2);
  EXPECT_LE(ReadFile(FilesIn(Directory()).at(0)).value().size(), 2000u);
}

TEST_F(LaunchCaptureTest, ADirectoryThatCannotBeMadeEndsTheRecording) {
  ASSERT_THAT(WriteNewFile(JoinPath(directory_.path(), "a"), ""), IsOk());
  LaunchCapture& capture = Capture();
  testing::internal::CaptureStderr();
  CountOne(capture, 1);
  CountOne(capture, 2);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, AllOf(HasSubstr("File exists"), HasSubstr("HONE_CAPTURE")));
  EXPECT_EQ(said.find('\n'), said.size() - 1) << "said once";
  EXPECT_THAT(capture.Status(), AllOf(StartsWith("stopped: "), HasSubstr("File exists")));
  capture.Flush();
}

TEST_F(LaunchCaptureTest, AFullDiskEndsTheRecordingAndNothingElse) {
  const std::string directory = Directory();
  // The limit of a file's size fails writes as a full disk does, in the middle of a line.
  const pid_t child = Fork([&] {
    const rlimit limit = {.rlim_cur = 1500, .rlim_max = 1500};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    LaunchCapture& capture = Capture();
    for (int n = 0; n < 100; ++n) CountOne(capture, n);
    capture.Flush();
    return absl::StartsWith(capture.Status(), "stopped: ");
  });
  EXPECT_EQ(StatusOfChild(child), 0);
  const size_t problems = ProblemsIn(directory, child).size();
  EXPECT_GT(problems, 2u);
  EXPECT_LT(problems, 20u);
}

TEST_F(LaunchCaptureTest, WrongVariablesAreNamedAndNothingIsRecorded) {
  ASSERT_EQ(::setenv("HONE_CAPTURE_MAX_MB", "many", 1), 0);
  const CaptureOptions options = CaptureOptions::FromEnvironment(Directory().c_str());
  ::unsetenv("HONE_CAPTURE_MAX_MB");
  EXPECT_THAT(options.problem,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("HONE_CAPTURE_MAX_MB"), HasSubstr("many"))));
  LaunchCapture& capture = *LaunchCapture::For(options);
  CountOne(capture, 1);
  EXPECT_THAT(capture.Status(), AllOf(StartsWith("stopped: "), HasSubstr("many")));
  EXPECT_FALSE(PathExists(Directory()));

  ASSERT_EQ(::setenv("HONE_CAPTURE_CONTENTS", "yes", 1), 0);
  EXPECT_FALSE(CaptureOptions::FromEnvironment("x").problem.ok());
  ASSERT_EQ(::setenv("HONE_CAPTURE_CONTENTS", "1", 1), 0);
  EXPECT_TRUE(CaptureOptions::FromEnvironment("x").contents);
  ::unsetenv("HONE_CAPTURE_CONTENTS");
  EXPECT_FALSE(CaptureOptions::FromEnvironment("x").contents);
  EXPECT_EQ(CaptureOptions::FromEnvironment("").directory, "");
  EXPECT_EQ(CaptureOptions::FromEnvironment("x").directory, JoinPath(RealPath(".").value(), "x"));
}

// scenario P44
TEST_F(LaunchCaptureTest, AForkedChildHasAFileOfItsOwnEvenWhileItsParentRecords) {
  LaunchCapture& capture = Capture();
  CountOne(capture, 1);
  std::atomic<bool> done{false};
  std::thread busy([&] {
    for (int64_t n = 0; !done; ++n) CountOne(capture, n % 300);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = Fork([&] {
      CountOne(capture, 1);
      CountOne(capture, 2);
      CountOne(capture, 1);
      capture.Flush();
      return absl::StartsWith(capture.Status(), "recording into");
    });
    EXPECT_EQ(StatusOfChild(child), 0);
    const std::vector<v1::CapturedProblem> problems = ProblemsIn(Directory(), child);
    ASSERT_THAT(problems, SizeIs(2));
    EXPECT_EQ(problems[0].launches(), 2) << "the parent's launches are its own";
  }
  done = true;
  busy.join();
}

TEST_F(LaunchCaptureTest, AKilledProcessLeavesWhatCanBeRead) {
  const std::string directory = Directory();
  for (int i = 0; i < 10; ++i) {
    const pid_t child = Fork([&]() -> bool {
      LaunchCapture& capture = Capture();
      for (int64_t n = 0;; ++n) {
        CountOne(capture, n);
        if (n % 7 == 0) capture.Flush();
      }
    });
    while (ProblemsIn(directory, child).size() < static_cast<size_t>(3 * i + 1)) {
      std::this_thread::yield();
    }
    ::kill(child, SIGKILL);
    StatusOfChild(child);
    const std::vector<v1::CapturedProblem> problems = ProblemsIn(directory, child);
    EXPECT_GT(problems.size(), static_cast<size_t>(3 * i));
    for (size_t n = 0; n < problems.size(); ++n) {
      EXPECT_EQ(problems[n].params().at("n").integer(), static_cast<int64_t>(n));
    }
  }
}

TEST_F(LaunchCaptureTest, AProgramThatJustEndsLeavesItsCounts) {
  const std::string directory = Directory();
  EXPECT_EXIT(
      {
        for (int i = 0; i < 12; ++i) CountOne(Capture(), 5);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  std::vector<v1::CapturedProblem> problems;
  const auto names = ListDirectory(directory);
  ASSERT_THAT(names, IsOk());
  ASSERT_THAT(*names, SizeIs(1));
  EXPECT_THAT(ReadFile(JoinPath(directory, names->front())),
              IsOkAndHolds(HasSubstr("launches: 12 ")));
}

TEST_F(LaunchCaptureTest, ContentsCountAndThoseThatDoNotFitAreLeftOut) {
  LaunchCapture& capture = Capture(/*bytes_max=*/5000, /*contents=*/true);
  const auto stored = capture.StoreContents("src", std::string(3000, 'x'));
  ASSERT_THAT(stored, IsOk());
  EXPECT_THAT(ReadFile(JoinPath(Directory(), *stored)), IsOkAndHolds(std::string(3000, 'x')));
  EXPECT_THAT(capture.StoreContents("src", std::string(3000, 'y')),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("3000 bytes")));
  CountOne(capture, 1);
  EXPECT_THAT(ProblemsIn(Directory()), SizeIs(1)) << "the recording goes on";
  capture.DropContents(*stored, 3000);
  EXPECT_FALSE(PathExists(JoinPath(Directory(), *stored)));
  EXPECT_THAT(capture.StoreContents("src", std::string(3000, 'z')), IsOk());
}

TEST_F(LaunchCaptureTest, WhoClaimsAProblemDescribesIt) {
  LaunchCapture& capture = Capture();
  EXPECT_TRUE(capture.Claim("k"));
  EXPECT_FALSE(capture.Claim("k"));
  const auto never = []() -> std::string {
    ADD_FAILURE() << "described by another";
    return {};
  };
  capture.Count("k", false, never);
  capture.Flush();
  EXPECT_THAT(ProblemsIn(Directory()), SizeIs(0));
  capture.Count("k", true, [] { return Problem(1); });
  capture.Flush();
  ASSERT_THAT(ProblemsIn(Directory()), SizeIs(1));
  EXPECT_EQ(ProblemsIn(Directory())[0].launches(), 2);
  // The launch of who claimed it failed: the next one is the first again.
  EXPECT_TRUE(capture.Claim("other"));
  capture.GiveUp("other");
  EXPECT_TRUE(capture.Claim("other"));
}

}  // namespace
}  // namespace hone
