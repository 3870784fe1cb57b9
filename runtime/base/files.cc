#include "runtime/base/files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unique_fd.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path, int64_t bytes_max) {
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", path);
    if (got == 0) return content;
    if (static_cast<int64_t>(content.size()) + got > bytes_max) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": larger than the limit of ", bytes_max, " bytes"));
    }
    content.append(buffer, static_cast<size_t>(got));
  }
}

absl::Status WriteAll(int fd, const std::string& path, absl::string_view content) {
  while (!content.empty()) {
    const ssize_t put = ::write(fd, content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrnoStatus(errno, "write", path);
    content.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ErrnoStatus(int error, absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(error, absl::StrCat(what, path.empty() ? "" : " ", path));
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t bytes_max) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  return ReadAll(fd.get(), path, bytes_max);
}

absl::StatusOr<std::string> ReadKernelFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  return ReadAll(fd.get(), path, int64_t{16} << 20);
}

absl::Status WriteFileAtomic(const std::string& path, absl::string_view content, mode_t mode) {
  HONE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  HONE_RETURN_IF_ERROR(file.Write(content));
  return file.Commit(mode);
}

absl::Status WriteNewFile(const std::string& path, absl::string_view content, mode_t mode) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.valid()) return ErrnoStatus(errno, "create", path);
  return WriteAll(fd.get(), path, content);
}

absl::Status MakeDirectories(const std::string& path, mode_t mode) {
  for (size_t end = 1; end <= path.size(); ++end) {
    if (end < path.size() && path[end] != '/') continue;
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), mode) == 0 || (errno == EEXIST && IsDirectory(part))) continue;
    const int error = errno;
    // A parent on a read-only or foreign file system may refuse mkdir although it is there.
    if (IsDirectory(part)) continue;
    return ErrnoStatus(error, "make directory", part);
  }
  return absl::OkStatus();
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return ErrnoStatus(error.value(), "remove", path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator it(path, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return ErrnoStatus(error.value(), "list", path);
  std::sort(names.begin(), names.end());
  return names;
}

bool PathExists(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0;
}

bool IsDirectory(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

absl::StatusOr<std::string> RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  if (::realpath(path.c_str(), resolved) == nullptr) return ErrnoStatus(errno, "resolve", path);
  return std::string(resolved);
}

std::string JoinPath(absl::string_view directory, absl::string_view name) {
  if (directory.empty()) return std::string(name);
  return absl::StrCat(directory, directory.back() == '/' ? "" : "/", name);
}

std::string DirectoryName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(path.substr(0, std::max<size_t>(slash, 1)));
}

std::string BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
}

std::string ExecutablePath() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

absl::Status CheckRelativePath(absl::string_view path) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("path '", path, "': ", why));
  };
  if (path.empty()) return refuse("empty");
  if (path.size() > 1024) return refuse("longer than 1024 bytes");
  if (path.front() == '/') return refuse("must be relative");
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f) {
      return refuse("holds a control character or a backslash");
    }
  }
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == ".") return refuse("has an empty or '.' component");
    if (part == "..") return refuse("must not hold '..'");
    if (part.size() > 255) return refuse("has a component longer than 255 bytes");
  }
  return absl::OkStatus();
}

absl::StatusOr<TemporaryDirectory> TemporaryDirectory::Create(const std::string& parent,
                                                              const std::string& prefix) {
  const char* tmpdir = ::getenv("TMPDIR");
  const std::string root =
      !parent.empty() ? parent : (tmpdir != nullptr && *tmpdir != '\0' ? tmpdir : "/tmp");
  std::string path = JoinPath(root, absl::StrCat(prefix, "-XXXXXX"));
  if (::mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "make directory", path);
  return TemporaryDirectory(std::move(path));
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : path_(std::exchange(other.path_, "")) {}

TemporaryDirectory& TemporaryDirectory::operator=(TemporaryDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryDirectory::~TemporaryDirectory() {
  // Best effort: what is left lies in a directory that its owner sweeps at the next start.
  if (!path_.empty()) RemoveTree(path_).IgnoreError();
}

}  // namespace hone
