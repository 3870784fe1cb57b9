// The daemon's unix socket: owns the path, accepts connections and learns who is behind each.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/caller.h"

namespace hone {

struct UnixListenerOptions {
  std::string path;
  mode_t mode = 0660;
  std::optional<gid_t> group = std::nullopt;  // absent: the process's
};

// A bound and listening socket. Mode and group are set before `listen`, so that no connection is
// possible under others, whatever the umask. `PATH.lock` is held while the socket is ours.
class UnixListener {
 public:
  // Replaces the socket a dead process left. Errors name the path: INVALID_ARGUMENT (too long for a
  // socket address, or something that is no socket is in the way), ALREADY_EXISTS with the owner's
  // pid (a live process listens there), PERMISSION_DENIED or NOT_FOUND (directory), with what to
  // do.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Bind(UnixListenerOptions options);
  // Stops, and removes the socket and its lock.
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  // Accepts on an own thread until Stop. `serve` takes ownership of each connection.
  void Start(std::function<void(int fd, Credentials credentials)> serve);
  // No connection is accepted after this returns; the path is gone.
  void Stop();

  const std::string& path() const { return options_.path; }

 private:
  UnixListener(UnixListenerOptions options, int lock_fd, int listen_fd, int stop_fd);
  void Accept(const std::function<void(int, Credentials)>& serve);

  const UnixListenerOptions options_;
  int lock_fd_;
  int listen_fd_;
  int stop_fd_;  // an eventfd that wakes the accepting thread
  std::thread thread_;
};

}  // namespace hone
