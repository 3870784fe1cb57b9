// The daemon's life: start, refusal, end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/scenarios/daemon_process.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DaemonLifeTest : public ::testing::Test {
 protected:
  // Short, so that the socket's path fits.
  DaemonLifeTest() : directory_(*TemporaryDirectory::Create("/tmp", "hone")) {}

  std::unique_ptr<DaemonProcess> Start(DaemonOptions options = {}) {
    auto daemon = DaemonProcess::Start(directory_.path(), std::move(options));
    EXPECT_TRUE(daemon.ok()) << daemon.status();
    return *std::move(daemon);
  }
  // The exit code and text of a daemon that is expected to refuse.
  std::pair<int, std::string> Refused(DaemonOptions options) {
    auto daemon = DaemonProcess::Launch(directory_.path(), std::move(options));
    EXPECT_TRUE(daemon.ok()) << daemon.status();
    const auto ended = (*daemon)->Wait();
    EXPECT_TRUE(ended.has_value() && ended->code.has_value()) << (*daemon)->Log();
    return {ended.has_value() ? ended->code.value_or(-1) : -1, (*daemon)->Log()};
  }

  TemporaryDirectory directory_;
};

TEST_F(DaemonLifeTest, TellsWhatItFound) {
  auto daemon = Start();
  const v1::GetStatusResponse status = daemon->WaitForEngine();
  ASSERT_EQ(status.devices_size(), 1) << daemon->Log();
  EXPECT_EQ(status.devices(0).fingerprint().kind(), "cpu");
  EXPECT_EQ(status.devices(0).state(), "idle");
  EXPECT_EQ(status.pid(), daemon->pid());
  EXPECT_EQ(status.store_path(), JoinPath(directory_.path(), "cache/hone.db"));
  EXPECT_GT(status.store_bytes(), 0);
  EXPECT_EQ(status.caller_role(), "tuner");
  EXPECT_THAT(daemon->Log(), AllOf(HasSubstr("ready listen="), HasSubstr("engine_ready")));
}

// scenario P53
TEST_F(DaemonLifeTest, SigtermEndsItWithZeroAndTakesTheSocketAlong) {
  auto daemon = Start();
  daemon->Signal(SIGTERM);
  const auto ended = daemon->Wait();
  ASSERT_TRUE(ended.has_value()) << daemon->Log();
  EXPECT_EQ(ended->code, 0) << daemon->Log();
  EXPECT_FALSE(PathExists(daemon->socket_path()));
  EXPECT_THAT(daemon->Log(), HasSubstr("stopped"));
}

// scenario P13: never two writers.
TEST_F(DaemonLifeTest, ASecondDaemonIsRefusedWithTheOwnersPid) {
  auto first = Start();
  auto [code, text] = Refused({.environment = {}});
  EXPECT_EQ(code, 75) << text;
  EXPECT_THAT(text, HasSubstr(absl::StrCat(first->pid())));
  // The first is none the worse for it.
  EXPECT_EQ(first->Status().pid(), first->pid());
}

TEST_F(DaemonLifeTest, AfterKillMinusNineTheNextOneStarts) {
  Start()->Kill();
  auto second = Start();
  EXPECT_EQ(second->Status().pid(), second->pid());
}

// scenario P50
TEST(DaemonSettingsTest, AnUnusableCacheDirectoryIsNamed) {
  auto directory = *TemporaryDirectory::Create("/tmp", "hone");
  // Not even root can make a directory below a file.
  ASSERT_TRUE(WriteNewFile(JoinPath(directory.path(), "cache"), "").ok());
  auto daemon = *DaemonProcess::Launch(directory.path());
  const auto ended = daemon->Wait();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->code, 78) << daemon->Log();
  EXPECT_THAT(daemon->Log(), HasSubstr(JoinPath(directory.path(), "cache")));
}

// scenario P43
TEST_F(DaemonLifeTest, TheSocketHasTheModeAskedFor) {
  const mode_t before = umask(0077);
  auto daemon = Start({.arguments = {"--socket-mode", "0666"}});
  umask(before);
  struct stat info {};
  ASSERT_EQ(stat(daemon->socket_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666u);
}

TEST_F(DaemonLifeTest, BadUsageExitsWithSixtyFour) {
  auto [code, text] = Refused({.arguments = {"--workers", "-3"}});
  EXPECT_EQ(code, 64);
  EXPECT_THAT(text, AllOf(HasSubstr("--workers"), HasSubstr("-3")));
}

// Processes whose parent is `pid`.
std::vector<int> ChildrenOf(pid_t pid) {
  std::vector<int> children;
  const auto names = ListDirectory("/proc");
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    int child = 0;
    if (!absl::SimpleAtoi(name, &child)) continue;
    // "PID (NAME) STATE PPID ..."
    const std::string stat = ReadKernelFile("/proc/" + name + "/stat").value_or("");
    const std::vector<std::string> fields =
        absl::StrSplit(stat.substr(std::min(stat.rfind(')'), stat.size())), ' ');
    if (fields.size() > 2 && fields[2] == absl::StrCat(pid)) children.push_back(child);
  }
  return children;
}

// scenario P22
TEST_F(DaemonLifeTest, WorkersEndWithAKilledDaemon) {
  auto daemon = Start();
  daemon->WaitForEngine();
  const std::vector<int> workers = ChildrenOf(daemon->pid());
  ASSERT_FALSE(workers.empty()) << "probing leaves idle compile workers behind";
  daemon->Kill();
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  for (const int worker : workers) {
    // Orphans are reaped by init; a zombie that nobody reaps is no running worker either.
    const auto running = [worker] {
      const std::string stat = ReadKernelFile(absl::StrCat("/proc/", worker, "/stat")).value_or("");
      return !stat.empty() && !absl::StrContains(stat, ") Z ");
    };
    while (running() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
    EXPECT_FALSE(running()) << "worker " << worker;
  }
}

}  // namespace
}  // namespace hone
