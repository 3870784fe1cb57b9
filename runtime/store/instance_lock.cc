#include "runtime/store/instance_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"

namespace hone {
namespace {

// The text another owner left in the file; empty between its locking and its writing.
std::string ReadOwner(int fd) {
  char text[32];
  const ssize_t size = pread(fd, text, sizeof(text), 0);
  if (size <= 0) return "";
  return std::string(absl::StripAsciiWhitespace(std::string(text, static_cast<size_t>(size))));
}

}  // namespace

absl::StatusOr<std::unique_ptr<InstanceLock>> InstanceLock::Acquire(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("lock file ", path, " cannot be opened: ", std::strerror(errno)));
  }
  // flock belongs to the open file: it also keeps out a second store of this process, and a worker
  // that is exec'ed cannot keep it, because the descriptor closes on exec.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int lock_errno = errno;
    const std::string owner = ReadOwner(fd);
    close(fd);
    if (lock_errno != EWOULDBLOCK) {
      return absl::FailedPreconditionError(
          absl::StrCat("lock file ", path, " cannot be locked: ", std::strerror(lock_errno)));
    }
    return WithErrorInfo(
        absl::FailedPreconditionError(absl::StrCat(
            "in use by ", owner.empty() ? "another process" : absl::StrCat("process ", owner), " (",
            path, "); two daemons cannot share one cache directory")),
        {.reason = "STORE_IN_USE"});
  }
  std::unique_ptr<InstanceLock> lock(new InstanceLock(fd));
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    // A full disk: the lock holds all the same, only the pid is not told.
    return lock;
  }
  return lock;
}

InstanceLock::~InstanceLock() {
  // Errors change nothing: closing frees the lock.
  [[maybe_unused]] const int truncated = ftruncate(fd_, 0);
  close(fd_);
}

}  // namespace hone
