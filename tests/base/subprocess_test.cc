#include "runtime/base/subprocess.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "runtime/base/files.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Subprocess::Options Shell(const std::string& script) {
  Subprocess::Options options;
  options.program = "/bin/sh";
  options.arguments = {"-c", script};
  return options;
}

// What the child wrote to its socket until it closed it.
std::string ReadAll(UniqueFd& fd) {
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = ::read(fd.get(), buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

bool IsGone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

TEST(SubprocessTest, TalksOverDescriptorThree) {
  auto child = Subprocess::Spawn(Shell("read line <&3; echo got $line >&3; exit 7"));
  ASSERT_THAT(child, IsOk());
  ASSERT_EQ(::write(child->socket().get(), "hello\n", 6), 6);
  EXPECT_EQ(ReadAll(child->socket()), "got hello\n");
  const auto end = child->Wait(Deadline::Never());
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, 7);
  EXPECT_EQ(end->ToString(), "exit code 7");
}

// scenario P44
TEST(SubprocessTest, InheritsNoOtherDescriptorEvenWithoutCloseOnExec) {
  const UniqueFd leaky(::open("/dev/null", O_RDONLY));
  const UniqueFd high(::fcntl(leaky.get(), F_DUPFD, 100));
  auto child = Subprocess::Spawn(Shell("ls /proc/self/fd >&3"));
  ASSERT_THAT(child, IsOk());
  // 0 to 3, and the one by which ls reads the directory.
  EXPECT_EQ(ReadAll(child->socket()), "0\n1\n2\n3\n4\n");
}

TEST(SubprocessTest, EnvironmentAndStandardErrorAreTheOptions) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  Subprocess::Options options = Shell("echo $ONLY-$HOME >&2");
  options.environment = std::vector<std::string>{"ONLY=this"};
  options.stderr_fd = writer.get();
  auto child = Subprocess::Spawn(options);
  ASSERT_THAT(child, IsOk());
  writer.Reset();
  EXPECT_EQ(ReadAll(reader), "this-\n");
}

TEST(SubprocessTest, AMissingProgramIsAnErrorThatNamesIt) {
  Subprocess::Options options;
  options.program = "/no/such/program";
  EXPECT_THAT(Subprocess::Spawn(options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/program")));
}

TEST(SubprocessTest, WaitGivesUpAtItsDeadlineAndKillReaps) {
  auto child = Subprocess::Spawn(Shell("read line <&3"));
  ASSERT_THAT(child, IsOk());
  EXPECT_FALSE(child->Wait(Deadline::In(absl::Milliseconds(20))).has_value());
  const ExitStatus end = child->Kill();
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_THAT(end.ToString(), HasSubstr("signal 9"));
  EXPECT_TRUE(IsGone(child->pid()));
  EXPECT_EQ(child->Kill().signal, SIGKILL);
}

TEST(SubprocessTest, KillReportsHowTheChildEndedByItself) {
  auto child = Subprocess::Spawn(Shell("kill -ABRT $$"));
  ASSERT_THAT(child, IsOk());
  EXPECT_EQ(ReadAll(child->socket()), "");
  EXPECT_EQ(child->Kill().signal, SIGABRT);
}

TEST(SubprocessTest, WhatTheChildStartedDiesWithIt) {
  for (const char* end : {"read line <&3", "exit 0"}) {
    auto child = Subprocess::Spawn(Shell(absl::StrCat("sleep 1000 3>&- & echo $! >&3; ", end)));
    ASSERT_THAT(child, IsOk());
    char text[32] = {};
    ASSERT_GT(::read(child->socket().get(), text, sizeof(text) - 1), 0);
    const pid_t grandchild = std::stoi(text);
    if (std::string(end) == "exit 0") {
      ASSERT_TRUE(child->Wait(Deadline::Never()).has_value());
    } else {
      child->Kill();
    }
    // It is nobody's child here; init reaps it, so wait for the kernel's word that it is dead.
    const Deadline limit = Deadline::In(absl::Seconds(10));
    std::string state;
    while (!limit.passed()) {
      const auto stat = ReadKernelFile(absl::StrCat("/proc/", grandchild, "/stat"));
      state = stat.ok() ? stat->substr(stat->rfind(')') + 2, 1) : "gone";
      if (state == "Z" || state == "gone") break;
    }
    EXPECT_TRUE(state == "Z" || state == "gone") << end << ": " << state;
  }
}

TEST(SubprocessTest, TheDestructorLeavesNoZombie) {
  pid_t pid = 0;
  {
    auto child = Subprocess::Spawn(Shell("exit 0"));
    ASSERT_THAT(child, IsOk());
    pid = child->pid();
    Subprocess moved = *std::move(child);
    EXPECT_EQ(moved.pid(), pid);
  }
  EXPECT_TRUE(IsGone(pid));
}

TEST(EnvironmentTest, DropsWholePrefixes) {
  ::setenv("NVRTC_INTERNAL_TEST", "1", 1);
  ::setenv("HONE_KEPT", "1", 1);
  const std::vector<std::string> kept = EnvironmentWithout({"NVRTC_"});
  EXPECT_THAT(kept, Contains("HONE_KEPT=1"));
  EXPECT_THAT(kept, Not(Contains(StartsWith("NVRTC_"))));
}

}  // namespace
}  // namespace hone
