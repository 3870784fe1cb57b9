#include "runtime/store/local_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// Values of f_type from statfs(2) and the kernel's magic.h. FUSE counts: whether sshfs or a bucket
// is behind it cannot be told from here.
const char* NetworkFileSystemName(uint64_t type) {
  switch (type) {
    case 0x6969:
      return "NFS";
    case 0x517b:
      return "SMB";
    case 0xff534d42:
      return "CIFS";
    case 0xfe534d42:
      return "SMB2";
    case 0x5346414f:
      return "AFS";
    case 0x6b414653:
      return "kAFS";
    case 0x73757245:
      return "Coda";
    case 0x564c:
      return "NCP";
    case 0x00c36400:
      return "Ceph";
    case 0x0bd00bd0:
      return "Lustre";
    case 0x47504653:
      return "GPFS";
    case 0x19830326:
      return "BeeGFS";
    case 0x7461636f:
      return "OCFS2";
    case 0x01161970:
      return "GFS2";
    case 0x01021997:
      return "9P";
    case 0x65735546:
      return "FUSE";
    default:
      return nullptr;
  }
}

absl::Status Refused(const std::string& directory, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("cache directory ", directory, " ", why));
}

absl::Status MakeDirectory(const std::string& directory) {
  std::string path;
  for (const std::filesystem::path& part : std::filesystem::path(directory)) {
    path = path.empty() ? part.string() : (std::filesystem::path(path) / part).string();
    if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST || errno == EISDIR) continue;
    // A parent that exists may forbid mkdir (read-only, no permission) and still be passed through.
    const int mkdir_errno = errno;
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) continue;
    return Refused(directory,
                   absl::StrCat("cannot be made: mkdir ", path, ": ", std::strerror(mkdir_errno)));
  }
  struct stat info;
  if (stat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Refused(directory, "is not a directory");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> FileSystemType(const std::string& path) {
  struct statfs info;
  if (statfs(path.c_str(), &info) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("statfs ", path, ": ", std::strerror(errno)));
  }
  // 32 bits: some architectures sign-extend f_type.
  return static_cast<uint64_t>(info.f_type) & 0xffffffff;
}

absl::Status PrepareLocalDirectory(const std::string& directory,
                                   const FileSystemTypeFunction& file_system_type) {
  HONE_RETURN_IF_ERROR(MakeDirectory(directory));
  HONE_ASSIGN_OR_RETURN(const uint64_t type, file_system_type(directory));
  if (const char* name = NetworkFileSystemName(type); name != nullptr) {
    return Refused(directory, absl::StrCat("is on a network file system (", name,
                                           "); put it on a local disk"));
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    return Refused(directory, absl::StrCat("is not writable: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && fsync(fd) == 0;
  const int sync_errno = errno;
  if (fd >= 0) close(fd);
  if (synced) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot sync directory ", directory, ": ", std::strerror(sync_errno)));
}

}  // namespace hone
