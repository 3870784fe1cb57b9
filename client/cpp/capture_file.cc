#include "client/cpp/capture_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

constexpr char kSuffix[] = ".pbtxt";
// Names that are taken are other processes' with the same pid, from other containers.
constexpr int kNameAttempts = 16;

// A file that would become larger than RLIMIT_FSIZE, or a pipe without a reader, is an error to us,
// not the process's end.
class NoWriteSignals {
 public:
  NoWriteSignals() {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGXFSZ);
    sigaddset(&both, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &both, &before_);
    sigemptyset(&ours_);
    for (const int signal : {SIGXFSZ, SIGPIPE}) {
      if (sigismember(&before_, signal) == 0) sigaddset(&ours_, signal);
    }
  }
  ~NoWriteSignals() {
    // One that a write of this thread raised is taken away before it can be delivered.
    const timespec now = {};
    int taken = 0;
    do {
      taken = sigtimedwait(&ours_, nullptr, &now);
    } while (taken > 0 || errno == EINTR);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;

 private:
  sigset_t ours_;
  sigset_t before_;
};

// 0, or errno's value.
int WriteWhole(int fd, absl::string_view bytes) {
  const NoWriteSignals no_signals;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int CreateAt(int directory, const std::string& name) {
  return ::openat(directory, name.c_str(),
                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_APPEND, 0600);
}

uint32_t RandomNumber() {
  uint32_t number = 0;
  if (::getrandom(&number, sizeof(number), GRND_NONBLOCK) == sizeof(number)) return number;
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint32_t>(now.tv_nsec) ^ static_cast<uint32_t>(now.tv_sec << 12);
}

}  // namespace

void SayOnStandardError(absl::string_view line) {
  pollfd output = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  // Nothing is to be done about a failure.
  if (::poll(&output, 1, 0) == 1 && output.revents == POLLOUT) WriteWhole(STDERR_FILENO, line);
}

absl::StatusOr<CaptureFile> CaptureFile::Create(const std::string& directory) {
  HONE_RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  UniqueFd directory_fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory_fd.valid()) return ErrnoStatus(errno, "open", directory);
  CaptureFile file(directory, std::move(directory_fd));
  for (int i = 0; i < kNameAttempts; ++i) {
    file.stem_ = absl::StrCat("capture-", ::getpid(), "-", absl::Hex(RandomNumber()));
    file.fd_.Reset(CreateAt(file.directory_fd_.get(), file.stem_ + kSuffix));
    if (file.fd_.valid()) return file;
    if (errno != EEXIST) break;
  }
  return ErrnoStatus(errno, "create", file.path());
}

std::string CaptureFile::path() const { return JoinPath(directory_, stem_ + kSuffix); }

absl::Status CaptureFile::Append(absl::string_view text) {
  const int error = WriteWhole(fd_.get(), text);
  if (error == 0) {
    size_bytes_ += static_cast<int64_t>(text.size());
    return absl::OkStatus();
  }
  // Best effort: readers pass over a line without its end.
  if (::ftruncate(fd_.get(), size_bytes_) != 0) errno = 0;
  return ErrnoStatus(error, "write", path());
}

absl::Status CaptureFile::Replace(absl::string_view text) {
  // Not among the names that readers look at. One that is left over is this process's own.
  const std::string temporary = absl::StrCat(".", stem_, ".new");
  ::unlinkat(directory_fd_.get(), temporary.c_str(), 0);
  UniqueFd fd(CreateAt(directory_fd_.get(), temporary));
  if (!fd.valid()) return ErrnoStatus(errno, "create", JoinPath(directory_, temporary));
  int error = WriteWhole(fd.get(), text);
  if (error == 0 && ::renameat(directory_fd_.get(), temporary.c_str(), directory_fd_.get(),
                               (stem_ + kSuffix).c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    ::unlinkat(directory_fd_.get(), temporary.c_str(), 0);
    return ErrnoStatus(error, "replace", path());
  }
  fd_ = std::move(fd);
  size_bytes_ = static_cast<int64_t>(text.size());
  return absl::OkStatus();
}

absl::StatusOr<std::string> CaptureFile::WriteBeside(absl::string_view label,
                                                     absl::string_view bytes) const {
  std::string name = absl::StrCat(stem_, ".", label);
  const UniqueFd fd(CreateAt(directory_fd_.get(), name));
  if (!fd.valid()) return ErrnoStatus(errno, "create", JoinPath(directory_, name));
  const int error = WriteWhole(fd.get(), bytes);
  if (error == 0) return name;
  RemoveBeside(name);
  return ErrnoStatus(error, "write", JoinPath(directory_, name));
}

void CaptureFile::RemoveBeside(const std::string& name) const {
  ::unlinkat(directory_fd_.get(), name.c_str(), 0);
}

}  // namespace hone
