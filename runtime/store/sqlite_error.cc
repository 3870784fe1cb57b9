#include "runtime/store/sqlite_error.h"

#include <sqlite3.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"

namespace hone {
namespace {

// Long enough for a few evictions or a log rotation to have made room.
constexpr int64_t kDiskFullRetryMs = 5000;

bool MeansNoRoom(int code, int system_errno) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  return (code & 0xff) == SQLITE_IOERR &&
         (system_errno == ENOSPC || system_errno == EDQUOT || system_errno == EFBIG);
}

bool MeansReadOnly(int code, int system_errno) {
  const int primary = code & 0xff;
  if (primary == SQLITE_READONLY || primary == SQLITE_PERM || primary == SQLITE_AUTH) return true;
  return primary == SQLITE_IOERR &&
         (system_errno == EROFS || system_errno == EACCES || system_errno == EPERM);
}

std::string Details(int code, sqlite3* db, int system_errno) {
  std::string details = absl::StrCat("SQLite ", code, ": ",
                                     db == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db));
  if (system_errno != 0) absl::StrAppend(&details, "; ", std::strerror(system_errno));
  return details;
}

absl::Status NoRoom(const std::string& path, const std::string& details) {
  const int64_t free_bytes = FreeBytes(path);
  return WithErrorInfo(
      absl::ResourceExhaustedError(
          absl::StrCat("no room to grow ", path, ": ", free_bytes, " bytes free (", details, ")")),
      {.reason = "DISK_FULL", .available = free_bytes, .retry_after_ms = kDiskFullRetryMs});
}

}  // namespace

int64_t FreeBytes(const std::string& path) {
  struct statvfs stats;
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (statvfs(directory.empty() ? "." : directory.c_str(), &stats) != 0) return -1;
  return static_cast<int64_t>(stats.f_bavail) * static_cast<int64_t>(stats.f_frsize);
}

absl::Status SqliteError(int code, sqlite3* db, const std::string& path) {
  const int last_errno = errno;
  const int primary = code & 0xff;
  // SQLite does not keep the system's error of a failed commit; errno still has it.
  const bool has_errno = db != nullptr && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN);
  const int kept_errno = has_errno ? sqlite3_system_errno(db) : 0;
  const int system_errno = has_errno && kept_errno == 0 ? last_errno : kept_errno;
  const std::string details = Details(code, db, system_errno);
  if (MeansNoRoom(code, system_errno)) return NoRoom(path, details);
  if (MeansReadOnly(code, system_errno)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " or a file beside it cannot be written (", details, ")"));
  }
  switch (primary) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return WithErrorInfo(absl::UnavailableError(absl::StrCat(
                               path, " is kept busy by another process (", details, ")")),
                           {.reason = "STORE_BUSY", .retry_after_ms = 1000});
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(absl::StrCat(path, " is damaged (", details, ")"));
    case SQLITE_CANTOPEN:
      return absl::FailedPreconditionError(
          absl::StrCat(path, " or a file beside it cannot be opened (", details, ")"));
    case SQLITE_IOERR:
      return absl::UnavailableError(
          absl::StrCat("the disk under ", path, " failed (", details, ")"));
    case SQLITE_INTERRUPT:
      return absl::CancelledError(absl::StrCat("work on ", path, " was interrupted"));
    case SQLITE_TOOBIG:
      return absl::ResourceExhaustedError(
          absl::StrCat("too big a row for ", path, ": the most is 1 GB (", details, ")"));
    case SQLITE_NOMEM:
      return absl::ResourceExhaustedError(absl::StrCat("no memory for ", path));
    default:
      return absl::InternalError(absl::StrCat("unexpected error on ", path, " (", details, ")"));
  }
}

}  // namespace hone
