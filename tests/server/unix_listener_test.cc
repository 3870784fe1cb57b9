#include "server/unix_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/files.h"
#include "runtime/base/notification.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class UnixListenerTest : public ::testing::Test {
 protected:
  UnixListenerTest()
      : directory_(*TemporaryDirectory::Create()), path_(JoinPath(directory_.path(), "s")) {}

  static int Connect(const std::string& path) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
    close(fd);
    return -1;
  }

  // A socket whose owner is gone.
  void LeaveStaleSocket() {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    close(fd);
  }

  TemporaryDirectory directory_;
  const std::string path_;
};

TEST_F(UnixListenerTest, TellsWhoConnected) {
  auto listener = UnixListener::Bind({.path = path_});
  ASSERT_TRUE(listener.ok()) << listener.status();
  Notification served;
  Credentials seen;
  (*listener)->Start([&](int fd, Credentials credentials) {
    seen = std::move(credentials);
    close(fd);
    served.Notify();
  });
  const int client = Connect(path_);
  ASSERT_GE(client, 0);
  served.WaitForNotification();
  EXPECT_EQ(seen.pid, getpid());
  EXPECT_EQ(seen.uid, getuid());
  close(client);
}

// scenario P43
TEST_F(UnixListenerTest, ModeAndGroupAreAsAskedWhateverTheUmask) {
  for (const mode_t mask : {mode_t{0000}, mode_t{0077}}) {
    const mode_t before = umask(mask);
    auto listener = UnixListener::Bind({.path = path_, .mode = 0660, .group = getgid()});
    umask(before);
    ASSERT_TRUE(listener.ok()) << listener.status();
    struct stat info {};
    ASSERT_EQ(stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0660u) << "umask " << mask;
    EXPECT_EQ(info.st_gid, getgid());
  }
}

TEST_F(UnixListenerTest, ReplacesAStaleSocket) {
  LeaveStaleSocket();
  auto listener = UnixListener::Bind({.path = path_});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const int client = Connect(path_);
  EXPECT_GE(client, 0);
  close(client);
}

TEST_F(UnixListenerTest, LeavesALiveSocketAloneAndNamesItsOwner) {
  auto first = UnixListener::Bind({.path = path_});
  ASSERT_TRUE(first.ok());
  const auto second = UnixListener::Bind({.path = path_});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(path_), HasSubstr(absl::StrCat("pid ", getpid()))));
  const int client = Connect(path_);
  EXPECT_GE(client, 0) << "the first is still reachable";
  close(client);
}

TEST_F(UnixListenerTest, AForeignListenersSocketIsNotTaken) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_EQ(UnixListener::Bind({.path = path_}).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(PathExists(path_));
  close(fd);
}

TEST_F(UnixListenerTest, AFileInTheWayIsLeftAlone) {
  ASSERT_TRUE(WriteNewFile(path_, "mine").ok());
  const auto listener = UnixListener::Bind({.path = path_});
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(listener.status().message()), HasSubstr("not a socket"));
  EXPECT_EQ(*ReadFile(path_), "mine");
}

TEST_F(UnixListenerTest, APathTooLongIsSaidSo) {
  const std::string path = JoinPath(directory_.path(), std::string(120, 'x'));
  const auto listener = UnixListener::Bind({.path = path});
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(listener.status().message()),
              AllOf(HasSubstr(absl::StrCat(path.size(), " bytes")), HasSubstr("107")));
}

// scenario P43
TEST_F(UnixListenerTest, AMissingDirectoryIsNamed) {
  const std::string path = JoinPath(directory_.path(), "no/such/s");
  const auto listener = UnixListener::Bind({.path = path});
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(listener.status().message()), HasSubstr(path));
}

TEST_F(UnixListenerTest, TheSocketGoesWithItsListener) {
  { ASSERT_TRUE(UnixListener::Bind({.path = path_}).ok()); }
  EXPECT_FALSE(PathExists(path_));
  EXPECT_FALSE(PathExists(path_ + ".lock"));
}

}  // namespace
}  // namespace hone
