#include "client/cli/file_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace hone::cli {
namespace {

// Editors write a file in one go or rename one over it; what is left of a save comes within this.
constexpr absl::Duration kQuiet = absl::Milliseconds(30);

}  // namespace

absl::StatusOr<FileWatch> FileWatch::Create(const std::string& directory) {
  UniqueFd fd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (fd.get() < 0 || inotify_add_watch(fd.get(), directory.c_str(),
                                        IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE) < 0) {
    return absl::InternalError(
        absl::StrCat("cannot watch ", directory, ": ", std::strerror(errno)));
  }
  return FileWatch(std::move(fd));
}

bool FileWatch::Drain(absl::Duration timeout) {
  pollfd waiting{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  const int timeout_ms = timeout == absl::InfiniteDuration()
                             ? -1
                             : static_cast<int>(absl::ToInt64Milliseconds(timeout));
  if (poll(&waiting, 1, timeout_ms) <= 0) return false;
  std::array<char, 4096> events;
  while (read(fd_.get(), events.data(), events.size()) > 0) {
  }
  return true;
}

bool FileWatch::Poll() { return Drain(absl::ZeroDuration()); }

void FileWatch::Wait() {
  Drain(absl::InfiniteDuration());
  while (Drain(kQuiet)) {
  }
}

}  // namespace hone::cli
