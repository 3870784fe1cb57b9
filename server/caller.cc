#include "server/caller.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

namespace hone {
namespace {

// Numbers below are left to files, pipes and workers' sockets.
constexpr int kFirstConnectionFd = 512;
// Enough for a rotation that never meets a call still in flight; each costs one table row at most.
constexpr int kConnectionFdsMax = 16384;

absl::StatusOr<std::vector<gid_t>> PeerGroups(int fd) {
  std::vector<gid_t> groups(32);
  socklen_t bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes) != 0) {
    if (errno != ERANGE) return absl::ErrnoToStatus(errno, "SO_PEERGROUPS");
    groups.resize(bytes / sizeof(gid_t));
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes) != 0) {
      return absl::ErrnoToStatus(errno, "SO_PEERGROUPS");
    }
  }
  groups.resize(bytes / sizeof(gid_t));
  return groups;
}

}  // namespace

absl::StatusOr<Credentials> Credentials::OfPeer(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return absl::ErrnoToStatus(errno, "SO_PEERCRED");
  }
  Credentials credentials{.pid = peer.pid, .uid = peer.uid, .gid = peer.gid, .groups = {}};
  // Kernels before 4.13 do not tell; the peer then has its primary group only.
  if (auto groups = PeerGroups(fd); groups.ok()) credentials.groups = *std::move(groups);
  return credentials;
}

absl::string_view Name(Role role) { return role == Role::kTuner ? "tuner" : "reader"; }

Role RolePolicy::RoleOf(const Credentials& credentials) const {
  if (credentials.uid == own_uid || credentials.uid == 0) return Role::kTuner;
  if (!admin_group.has_value()) return Role::kReader;
  const auto& groups = credentials.groups;
  const bool member = credentials.gid == *admin_group ||
                      std::find(groups.begin(), groups.end(), *admin_group) != groups.end();
  return member ? Role::kTuner : Role::kReader;
}

std::string Caller::ToString() const {
  return absl::StrCat("uid=", credentials.uid, " pid=", credentials.pid);
}

absl::Status RequireRole(const Caller& caller, Role needed, absl::string_view method,
                         const RolePolicy& policy) {
  if (needed == Role::kReader || caller.role == Role::kTuner) return absl::OkStatus();
  const std::string group =
      policy.admin_group.has_value()
          ? absl::StrCat("members of the group ", policy.admin_group_name)
          : std::string("members of the group given with --admin-group (none is given)");
  return absl::PermissionDeniedError(
      absl::StrCat(method, " needs the role tuner; uid ", caller.credentials.uid,
                   " has the role reader. Tuners are uid ", policy.own_uid,
                   " (the daemon's own), root, and ", group));
}

ConnectionTable::ConnectionTable(int first, int last) : first_(first), last_(last), next_(first) {}

ConnectionTable ConnectionTable::ForProcessLimit() {
  rlimit limit{};
  int last = kFirstConnectionFd + kConnectionFdsMax;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    last = static_cast<int>(std::min<rlim_t>(static_cast<rlim_t>(last), limit.rlim_cur - 1));
  }
  return ConnectionTable(std::min(kFirstConnectionFd, last / 2), last);
}

absl::StatusOr<int> ConnectionTable::Admit(int fd, Caller caller) {
  MutexLock lock(&mutex_);
  int number = fcntl(fd, F_DUPFD_CLOEXEC, next_);
  if (number > last_ || number < 0) {
    // Past the end of the range: go round.
    if (number >= 0) close(number);
    number = fcntl(fd, F_DUPFD_CLOEXEC, first_);
  }
  const int error = errno;
  close(fd);
  if (number < 0 || number > last_) {
    if (number >= 0) close(number);
    return absl::ResourceExhaustedError(
        absl::StrCat("no descriptor is free for another connection (range ", first_, " to ", last_,
                     ", RLIMIT_NOFILE): ", number < 0 ? error : EMFILE));
  }
  next_ = number + 1 > last_ ? first_ : number + 1;
  caller.connection = static_cast<uint64_t>(number);
  callers_[number] = std::move(caller);
  ++admitted_;
  return number;
}

std::optional<Caller> ConnectionTable::Find(absl::string_view peer) const {
  int fd = -1;
  if (!absl::ConsumePrefix(&peer, "fd:") || !absl::SimpleAtoi(peer, &fd)) return std::nullopt;
  MutexLock lock(&mutex_);
  const auto caller = callers_.find(fd);
  if (caller == callers_.end()) return std::nullopt;
  return caller->second;
}

int64_t ConnectionTable::admitted() const {
  MutexLock lock(&mutex_);
  return admitted_;
}

}  // namespace hone
