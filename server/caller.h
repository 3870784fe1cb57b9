// Who is calling: credentials of the connection's peer, and what they may do.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/mutex.h"

namespace hone {

// What the kernel said about a socket's peer when it connected.
struct Credentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary

  // Reads them from a connected unix socket.
  static absl::StatusOr<Credentials> OfPeer(int fd);
};

// `kTuner` includes `kReader`.
enum class Role { kReader, kTuner };
// "reader", "tuner".
absl::string_view Name(Role role);

// The daemon's own uid, root and members of the admin group are tuners; everyone else reads.
struct RolePolicy {
  uid_t own_uid = 0;
  std::optional<gid_t> admin_group = std::nullopt;
  std::string admin_group_name = {};  // for messages

  Role RoleOf(const Credentials& credentials) const;
};

struct Caller {
  Credentials credentials;
  Role role = Role::kReader;
  // The connection's number in the table: callers of one connection share what is one client's.
  uint64_t connection = 0;
  // "uid=1000 pid=4711", for logs.
  std::string ToString() const;
};

// OK if `caller` has `needed`; else PERMISSION_DENIED naming the method, the role needed and how
// one gets it.
absl::Status RequireRole(const Caller& caller, Role needed, absl::string_view method,
                         const RolePolicy& policy);

// Callers by the descriptor of their connection, which is all that gRPC tells a handler ("fd:513").
//
// A closed connection's number may be given to a new one while the old one's last call is still
// being dispatched. Numbers are therefore allotted in rotation over a wide range, so that one is
// reused only after thousands of other connections. Thread-safe.
class ConnectionTable {
 public:
  // Descriptors are taken from [first, last].
  ConnectionTable(int first, int last);
  // A range that fits the process's limit of open files.
  static ConnectionTable ForProcessLimit();

  // Moves the connection `fd` to the next number in rotation, closes `fd` and remembers the caller.
  // RESOURCE_EXHAUSTED when no number is free; `fd` is closed then, too.
  absl::StatusOr<int> Admit(int fd, Caller caller);
  // The caller behind gRPC's peer string; nullopt for a connection that was not admitted here.
  std::optional<Caller> Find(absl::string_view peer) const;

  int64_t admitted() const;

 private:
  const int first_;
  const int last_;
  mutable Mutex mutex_;
  int next_ ABSL_GUARDED_BY(mutex_);
  int64_t admitted_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int, Caller> callers_ ABSL_GUARDED_BY(mutex_);  // at most one for each number
};

}  // namespace hone
