#include "server/caller.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RolePolicy TestRoles() {
  return {.own_uid = 1000, .admin_group = 77, .admin_group_name = "kernels"};
}

TEST(RolePolicyTest, OwnUidRootAndTheAdminGroupTune) {
  const RolePolicy policy = TestRoles();
  EXPECT_EQ(policy.RoleOf({.uid = 1000, .gid = 5, .groups = {}}), Role::kTuner);
  EXPECT_EQ(policy.RoleOf({.uid = 0, .gid = 0, .groups = {}}), Role::kTuner);
  EXPECT_EQ(policy.RoleOf({.uid = 2000, .gid = 77, .groups = {}}), Role::kTuner);
  EXPECT_EQ(policy.RoleOf({.uid = 2000, .gid = 5, .groups = {6, 77}}), Role::kTuner);
  EXPECT_EQ(policy.RoleOf({.uid = 2000, .gid = 5, .groups = {6}}), Role::kReader);
}

TEST(RolePolicyTest, WithoutAnAdminGroupOthersOnlyRead) {
  EXPECT_EQ(RolePolicy{.own_uid = 1000}.RoleOf({.uid = 2000, .gid = 0, .groups = {0}}),
            Role::kReader);
}

TEST(RequireRoleTest, SaysWhichRoleIsNeededAndHowToGetIt) {
  const Caller reader{.credentials = {.uid = 2000, .groups = {}}, .role = Role::kReader};
  EXPECT_TRUE(RequireRole(reader, Role::kReader, "GetKernel", TestRoles()).ok());
  const absl::Status status = RequireRole(reader, Role::kTuner, "Tune", TestRoles());
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("Tune needs the role tuner"),
                                                   HasSubstr("uid 2000"), HasSubstr("kernels")));
}

TEST(CredentialsTest, AreThoseOfTheSocketsPeer) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const auto credentials = Credentials::OfPeer(ends[0]);
  ASSERT_TRUE(credentials.ok());
  EXPECT_EQ(credentials->uid, getuid());
  EXPECT_EQ(credentials->pid, getpid());
  close(ends[0]);
  close(ends[1]);
}

int AnyFd() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

Caller CallerOf(uid_t uid) {
  return {.credentials = {.uid = uid, .groups = {}}, .role = Role::kReader};
}

TEST(ConnectionTableTest, FindsCallersByGrpcsPeerText) {
  ConnectionTable table(300, 310);
  const auto fd = table.Admit(AnyFd(), CallerOf(42));
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(table.Find(absl::StrCat("fd:", *fd))->credentials.uid, 42u);
  EXPECT_FALSE(table.Find("fd:999").has_value());
  EXPECT_FALSE(table.Find("ipv4:127.0.0.1:5").has_value());
  EXPECT_FALSE(table.Find("").has_value());
  close(*fd);
}

TEST(ConnectionTableTest, AClosedConnectionsNumberIsNotReusedAtOnce) {
  ConnectionTable table(300, 310);
  const int first = *table.Admit(AnyFd(), CallerOf(1));
  close(first);
  const int second = *table.Admit(AnyFd(), CallerOf(2));
  EXPECT_NE(first, second);
  // A late call of the closed connection still meets its own caller.
  EXPECT_EQ(table.Find(absl::StrCat("fd:", first))->credentials.uid, 1u);
  close(second);
}

TEST(ConnectionTableTest, NumbersGoRoundAndSkipThoseInUse) {
  ConnectionTable table(300, 303);
  const int kept = *table.Admit(AnyFd(), CallerOf(1));
  for (uid_t uid = 2; uid < 20; ++uid) {
    const auto fd = table.Admit(AnyFd(), CallerOf(uid));
    ASSERT_TRUE(fd.ok());
    EXPECT_NE(*fd, kept);
    EXPECT_EQ(table.Find(absl::StrCat("fd:", *fd))->credentials.uid, uid);
    close(*fd);
  }
  EXPECT_EQ(table.Find(absl::StrCat("fd:", kept))->credentials.uid, 1u);
  close(kept);
}

TEST(ConnectionTableTest, AFullRangeRefusesTheNextConnection) {
  ConnectionTable table(300, 301);
  const int a = *table.Admit(AnyFd(), CallerOf(1));
  const int b = *table.Admit(AnyFd(), CallerOf(2));
  EXPECT_EQ(table.Admit(AnyFd(), CallerOf(3)).status().code(),
            absl::StatusCode::kResourceExhausted);
  close(a);
  EXPECT_TRUE(table.Admit(AnyFd(), CallerOf(4)).ok());
  close(a);
  close(b);
}

}  // namespace
}  // namespace hone
