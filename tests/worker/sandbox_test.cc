// Every case confines a process of its own, since there is no way back.
#include "runtime/worker/sandbox.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "runtime/base/files.h"
#include "runtime/base/unique_fd.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

// Exit codes of the confined process; 77 says that the kernel has no Landlock.
constexpr int kGood = 0;
constexpr int kNoLandlock = 77;

bool CanRead(const std::string& path) { return ReadFile(path).ok(); }

class SandboxTest : public testing::Test {
 protected:
  SandboxTest() {
    EXPECT_THAT(WriteNewFile(Path("outside"), "x"), IsOk());
    EXPECT_THAT(MakeDirectories(Path("read")), IsOk());
    EXPECT_THAT(WriteNewFile(Path("read/file"), "x"), IsOk());
    EXPECT_THAT(MakeDirectories(Path("write")), IsOk());
  }
  std::string Path(const std::string& name) const { return JoinPath(directory_.path(), name); }

  SandboxOptions Options() const {
    SandboxOptions options;
    options.read = {Path("read"), Path("not-there")};
    options.write = {Path("write")};
    return options;
  }

  // Runs `check` in a confined process; it returns what is wrong, 0 for nothing.
  void ExpectConfined(const SandboxOptions& options, const std::function<int()>& check) {
    const auto confined = [&] {
      const auto sandbox = EnterSandbox(options);
      if (!sandbox.ok()) ::_exit(1);
      if (*sandbox == "none") ::_exit(kNoLandlock);
      ::_exit(check());
    };
    EXPECT_EXIT(
        confined(),
        [](int status) {
          return WIFEXITED(status) &&
                 (WEXITSTATUS(status) == kGood || WEXITSTATUS(status) == kNoLandlock);
        },
        "");
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::Create();
};

TEST_F(SandboxTest, OnlyWhatIsListedCanBeRead) {
  ExpectConfined(Options(), [&] {
    if (!CanRead(Path("read/file"))) return 2;
    if (CanRead(Path("outside"))) return 3;
    if (CanRead("/etc/passwd")) return 4;
    if (CanRead(Path("read/../outside"))) return 5;
    return kGood;
  });
}

TEST_F(SandboxTest, OnlyTheScratchDirectoryCanBeWritten) {
  ExpectConfined(Options(), [&] {
    if (!MakeDirectories(Path("write/deep")).ok()) return 2;
    if (!WriteNewFile(Path("write/deep/file"), "x").ok()) return 3;
    if (!RemoveTree(Path("write/deep")).ok()) return 4;
    if (WriteNewFile(Path("read/new"), "x").ok()) return 5;
    if (WriteNewFile(Path("new"), "x").ok()) return 6;
    // A link out of the scratch directory leads nowhere.
    if (::symlink("/etc/passwd", Path("write/link").c_str()) == 0 && CanRead(Path("write/link"))) {
      return 7;
    }
    return kGood;
  });
}

TEST_F(SandboxTest, NothingCanBeExecutedThatIsNotListed) {
  ExpectConfined(Options(), [&] {
    ::execl("/bin/true", "true", nullptr);
    return errno == EACCES ? kGood : 2;
  });
}

TEST_F(SandboxTest, LimitsHold) {
  SandboxOptions options = Options();
  options.file_bytes_max = 1000;
  options.memory_bytes_max = int64_t{8} << 30;
  ExpectConfined(options, [&] {
    ::signal(SIGXFSZ, SIG_IGN);
    if (WriteNewFile(Path("write/big"), std::string(2000, 'x')).ok()) return 2;
    struct rlimit core = {};
    ::getrlimit(RLIMIT_CORE, &core);
    if (core.rlim_max != 0) return 3;
    return kGood;
  });
}

TEST(LimitProcessorTimeTest, EndsAProcessThatComputesTooLong) {
  const auto spin = [] {
    if (!LimitProcessorTime(1).ok()) ::_exit(1);
    volatile uint64_t spun = 0;
    while (true) {
      const uint64_t next = spun + 1;
      spun = next;
    }
  };
  EXPECT_EXIT(spin(), testing::KilledBySignal(SIGXCPU), "");
}

TEST(LimitProcessorTimeTest, ZeroLiftsTheLimit) {
  const auto lift = [] {
    struct rlimit limit = {};
    const bool good = LimitProcessorTime(1).ok() && LimitProcessorTime(0).ok() &&
                      ::getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_cur == limit.rlim_max;
    ::_exit(good ? kGood : 1);
  };
  EXPECT_EXIT(lift(), testing::ExitedWithCode(kGood), "");
}

TEST(ExitWhenPeerClosesTest, EndsTheProcessInTheMiddleOfItsWork) {
  const auto orphan = [] {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) ::_exit(1);
    ExitWhenPeerCloses(pair[0]);
    // Data that waits is no reason to leave.
    if (::write(pair[1], "x", 1) != 1) ::_exit(1);
    ::close(pair[1]);
    ::pause();
  };
  EXPECT_EXIT(orphan(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace hone
