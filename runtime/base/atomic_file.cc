#include "runtime/base/atomic_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

absl::Status SyncDirectory(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  // Some file systems cannot sync a directory and say EINVAL; the rename is done all the same.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return ErrnoStatus(errno, "fsync", path);
  return absl::OkStatus();
}

// `path`, or what it leads to; whether it may be replaced.
absl::StatusOr<std::string> Replaceable(std::string path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return path;
  if (S_ISLNK(info.st_mode)) {
    const std::unique_ptr<char, decltype(&::free)> target(::realpath(path.c_str(), nullptr),
                                                          &::free);
    if (target == nullptr) return ErrnoStatus(errno, "follow", path);
    path = target.get();
    if (::lstat(path.c_str(), &info) != 0) return path;
  }
  if (S_ISREG(info.st_mode)) return path;
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is no regular file and would be replaced by one; name another"));
}

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(std::string path) {
  HONE_ASSIGN_OR_RETURN(path, Replaceable(std::move(path)));
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "create", temporary);
  return AtomicFile(std::move(fd), std::move(path), std::move(temporary));
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

absl::Status AtomicFile::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrnoStatus(errno, "write", temporary_);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit(mode_t mode) {
  if (::fchmod(fd_.get(), mode) != 0) return ErrnoStatus(errno, "chmod", temporary_);
  if (::fsync(fd_.get()) != 0) return ErrnoStatus(errno, "fsync", temporary_);
  fd_.Reset();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, "rename to", path_);
  }
  temporary_.clear();
  return SyncDirectory(DirectoryName(path_));
}

}  // namespace hone
