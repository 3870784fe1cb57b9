#include "server/unix_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace hone {
namespace {

// A connection waits here while the accepting thread is busy; short of the usual system maximum.
constexpr int kBacklog = 512;
// How long to leave the backlog alone when no descriptor is free.
constexpr int kOutOfFilesPauseMs = 100;

absl::Status PathError(int error, absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(error, absl::StrCat("socket ", path, ": ", what));
}

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t longest = sizeof(address.sun_path) - 1;
  if (path.empty() || path.size() > longest) {
    return absl::InvalidArgumentError(absl::StrCat(
        "socket path ", path, " has ", path.size(), " bytes; a unix socket's path has 1 to ",
        longest, ". Choose a shorter one with --listen unix:PATH"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::string ReadOwner(int lock_fd) {
  std::array<char, 32> text{};
  const ssize_t length = pread(lock_fd, text.data(), text.size() - 1, 0);
  return length > 0 ? std::string(text.data(), static_cast<size_t>(length))
                    : std::string("unknown");
}

absl::Status OwnedError(const std::string& path, absl::string_view pid) {
  return absl::AlreadyExistsError(
      absl::StrCat("socket ", path, " belongs to a running process, pid ", pid,
                   ". Use that daemon, stop it, or choose another socket with --listen unix:PATH"));
}

// Takes `PATH.lock`, which keeps two daemons from replacing each other's socket while both start.
absl::StatusOr<int> TakeLock(const std::string& path) {
  const std::string lock_path = path + ".lock";
  while (true) {
    const int fd = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return PathError(errno, absl::StrCat("cannot create ", lock_path), path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const std::string owner = ReadOwner(fd);
      close(fd);
      if (error != EWOULDBLOCK) return PathError(error, "cannot lock", path);
      return OwnedError(path, owner);
    }
    // The file may have been removed by its last owner between open and lock.
    struct stat held {
    }, present{};
    if (fstat(fd, &held) == 0 && stat(lock_path.c_str(), &present) == 0 &&
        held.st_ino == present.st_ino) {
      const std::string pid = absl::StrCat(getpid());
      // Best effort: the number is for the message of the next one who tries.
      if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) errno = 0;
      return fd;
    }
    close(fd);
  }
}

// Removes what a dead process left at the path.
absl::Status ClearPath(const sockaddr_un& address, const std::string& path) {
  struct stat present {};
  if (lstat(path.c_str(), &present) != 0) {
    return errno == ENOENT ? absl::OkStatus() : PathError(errno, "cannot look at it", path);
  }
  if (!S_ISSOCK(present.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " exists and is not a socket; it is left alone. Choose another with --listen unix:PATH"));
  }
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return PathError(errno, "cannot create a socket", path);
  const bool alive =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const auto owner = Credentials::OfPeer(probe);
  close(probe);
  if (alive) return OwnedError(path, owner.ok() ? absl::StrCat(owner->pid) : "unknown");
  if (unlink(path.c_str()) != 0) return PathError(errno, "cannot replace the stale socket", path);
  return absl::OkStatus();
}

absl::Status BindAndListen(int fd, const sockaddr_un& address, const UnixListenerOptions& options) {
  const std::string& path = options.path;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return PathError(errno, "cannot bind", path);
  }
  if (options.group.has_value() &&
      lchown(path.c_str(), static_cast<uid_t>(-1), *options.group) != 0) {
    return PathError(errno, absl::StrCat("cannot give it to group ", *options.group), path);
  }
  if (chmod(path.c_str(), options.mode) != 0) return PathError(errno, "cannot set its mode", path);
  if (listen(fd, kBacklog) != 0) return PathError(errno, "cannot listen", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::Bind(UnixListenerOptions options) {
  HONE_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(options.path));
  HONE_ASSIGN_OR_RETURN(const int lock_fd, TakeLock(options.path));
  const int listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  // From here on the destructor cleans up.
  std::unique_ptr<UnixListener> listener(
      new UnixListener(std::move(options), lock_fd, listen_fd, stop_fd));
  if (listen_fd < 0 || stop_fd < 0) {
    return PathError(errno, "cannot create a socket", listener->path());
  }
  if (absl::Status status = ClearPath(address, listener->path()); !status.ok()) {
    close(std::exchange(listener->listen_fd_, -1));  // the path is not ours to remove
    return status;
  }
  HONE_RETURN_IF_ERROR(BindAndListen(listen_fd, address, listener->options_));
  return listener;
}

UnixListener::UnixListener(UnixListenerOptions options, int lock_fd, int listen_fd, int stop_fd)
    : options_(std::move(options)), lock_fd_(lock_fd), listen_fd_(listen_fd), stop_fd_(stop_fd) {}

UnixListener::~UnixListener() {
  Stop();
  if (stop_fd_ >= 0) close(stop_fd_);
  unlink((options_.path + ".lock").c_str());
  close(lock_fd_);
}

void UnixListener::Start(std::function<void(int, Credentials)> serve) {
  thread_ = std::thread([this, serve = std::move(serve)] { Accept(serve); });
}

void UnixListener::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    while (write(stop_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  if (listen_fd_ < 0) return;
  unlink(options_.path.c_str());
  close(std::exchange(listen_fd_, -1));
}

void UnixListener::Accept(const std::function<void(int, Credentials)>& serve) {
  std::array<pollfd, 2> waits{pollfd{listen_fd_, POLLIN, 0}, pollfd{stop_fd_, POLLIN, 0}};
  while (true) {
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if (waits[1].revents != 0) return;
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) continue;
      spdlog::error("accept_failed reason=\"{}\"", std::strerror(errno));
      poll(&waits[1], 1, kOutOfFilesPauseMs);
      continue;
    }
    auto credentials = Credentials::OfPeer(fd);
    if (!credentials.ok()) {
      spdlog::error("peer_unknown reason=\"{}\"", std::string(credentials.status().message()));
      close(fd);
      continue;
    }
    serve(fd, *std::move(credentials));
  }
}

}  // namespace hone
