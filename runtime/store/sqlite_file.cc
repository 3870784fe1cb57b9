#include "runtime/store/sqlite_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/store/local_directory.h"
#include "runtime/store/sqlite_salvage.h"
#include "runtime/store/sqlite_schema.h"

namespace hone {
namespace {

using Mode = SqliteDatabase::Mode;

std::string DirectoryOf(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

bool Exists(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot rename ", from, " to ", to, ": ", std::strerror(errno)));
  }
  return SyncDirectory(DirectoryOf(to));
}

void RemoveWithLogs(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    std::remove(absl::StrCat(path, suffix).c_str());
  }
}

// Moves the file and its write-ahead log out of the way; returns the new name.
absl::StatusOr<std::string> MoveAside(const std::string& path) {
  const std::string base = absl::StrCat(
      path, ".damaged-", absl::FormatTime("%Y%m%dT%H%M%SZ", absl::Now(), absl::UTCTimeZone()));
  std::string target = base;
  for (int i = 2; Exists(target) || Exists(target + "-wal"); ++i) {
    target = absl::StrCat(base, "-", i);
  }
  // The log first: a new database must never find the log of an old one.
  for (const char* suffix : {"-wal", ""}) {
    const std::string from = absl::StrCat(path, suffix);
    if (Exists(from)) HONE_RETURN_IF_ERROR(Rename(from, absl::StrCat(target, suffix)));
  }
  std::remove(absl::StrCat(path, "-shm").c_str());
  return target;
}

// Built under another name and renamed when complete, so that a file under `path` is never a
// fragment.
absl::Status Create(const std::string& path) {
  const std::string fragment = absl::StrCat(path, ".new");
  RemoveWithLogs(fragment);
  {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                          SqliteDatabase::Open(fragment, Mode::kCreate, absl::ZeroDuration()));
    // 8 KiB pages hold most cubins in a few overflow pages. Incremental vacuum can only be chosen
    // now; eviction needs it to give space back.
    HONE_RETURN_IF_ERROR(
        database->RunScript("PRAGMA page_size = 8192;"
                            "PRAGMA auto_vacuum = INCREMENTAL;"
                            "PRAGMA journal_mode = WAL;"));
    HONE_RETURN_IF_ERROR(Migrate(*database, Migrations(), absl::ToUnixMillis(absl::Now())));
  }
  return Rename(fragment, path);
}

// Why the file cannot be a database of ours, looking at its first bytes only; nullopt if it may be.
absl::StatusOr<std::optional<std::string>> LookAtHeader(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot look at ", path, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a regular file"));
  }
  if (info.st_size == 0) return "it is empty (0 bytes)";
  constexpr char kMagic[] = "SQLite format 3";
  char head[sizeof(kMagic)] = {};
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  const size_t size = std::fread(head, 1, sizeof(head), file);
  std::fclose(file);
  if (size == sizeof(head) && std::memcmp(head, kMagic, sizeof(head)) == 0) return std::nullopt;
  return "it is not an SQLite database";
}

// Runs the page check; interrupts it from a second thread when its time is over.
absl::StatusOr<std::optional<std::string>> QuickCheck(SqliteDatabase& database,
                                                      absl::Duration time_max, bool& complete) {
  Mutex mutex;
  bool done = false;
  std::thread watch([&] {
    mutex.Lock();
    const bool in_time = mutex.AwaitWithTimeout(absl::Condition(&done), time_max);
    mutex.Unlock();
    if (!in_time) database.Interrupt();
  });
  const auto check = [&]() -> absl::StatusOr<std::string> {
    HONE_ASSIGN_OR_RETURN(SqliteQuery query, database.Query("PRAGMA quick_check(1)"));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    return row ? query.Text(0) : std::string("ok");
  };
  const absl::StatusOr<std::string> answer = check();
  mutex.Lock();
  done = true;
  mutex.Unlock();
  watch.join();
  complete = !absl::IsCancelled(answer.status());
  if (!complete) return std::nullopt;
  if (absl::IsDataLoss(answer.status())) return std::string(answer.status().message());
  HONE_RETURN_IF_ERROR(answer.status());
  if (*answer == "ok") return std::nullopt;
  return *answer;
}

// An open database, or why the file is damaged.
struct Opened {
  std::unique_ptr<SqliteDatabase> database;
  SchemaState schema;
  std::string damage;
};

absl::StatusOr<Opened> TryOpen(const std::string& path, absl::Duration busy_timeout,
                               absl::Duration check_time_max, bool& check_complete) {
  Opened opened;
  HONE_ASSIGN_OR_RETURN(const std::optional<std::string> header, LookAtHeader(path));
  if (header.has_value()) {
    opened.damage = *header;
    return opened;
  }
  const auto open = [&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(opened.database,
                          SqliteDatabase::Open(path, Mode::kReadWrite, busy_timeout));
    HONE_ASSIGN_OR_RETURN(opened.schema, ReadSchema(*opened.database));
    if (opened.schema.application_id != kApplicationId) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(const std::optional<std::string> damage,
                          QuickCheck(*opened.database, check_time_max, check_complete));
    if (damage.has_value()) opened.damage = *damage;
    return absl::OkStatus();
  };
  const absl::Status status = open();
  if (absl::IsDataLoss(status)) {
    opened.damage = std::string(status.message());
  } else if (!status.ok()) {
    return status;
  }
  if (!opened.damage.empty()) opened.database.reset();
  return opened;
}

absl::Status StartAfresh(const std::string& path, absl::Duration busy_timeout, OpenReport& report) {
  HONE_ASSIGN_OR_RETURN(report.moved_aside_to, MoveAside(path));
  HONE_RETURN_IF_ERROR(Create(path));
  report.created = true;
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> fresh,
                        SqliteDatabase::Open(path, Mode::kReadWrite, busy_timeout));
  HONE_ASSIGN_OR_RETURN(report.salvaged_rows, Salvage(report.moved_aside_to, *fresh));
  return absl::OkStatus();
}

absl::Status CheckOwner(const std::string& path, const SchemaState& schema) {
  if (schema.application_id == kApplicationId && schema.schema >= 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, " is an SQLite database of another program (application_id ", schema.application_id,
      ", want ", kApplicationId, "); give another path or move it away"));
}

}  // namespace

std::string BackupPath(const std::string& path, int schema) {
  return absl::StrCat(path, ".schema", schema);
}

absl::Status BackUp(SqliteDatabase& database, int schema) {
  const std::string target = BackupPath(database.path(), schema);
  const std::string fragment = absl::StrCat(target, ".new");
  RemoveWithLogs(fragment);
  HONE_RETURN_IF_ERROR(database.BackUpTo(fragment));
  RemoveWithLogs(target);
  return Rename(fragment, target);
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenStoreFile(const std::string& path,
                                                              absl::Duration busy_timeout,
                                                              absl::Duration check_time_max,
                                                              OpenReport& report) {
  report.path = path;
  if (!Exists(path)) {
    if (Exists(path + "-wal")) {
      report.damage = "there was a write-ahead log without its database";
      HONE_ASSIGN_OR_RETURN(report.moved_aside_to, MoveAside(path));
    }
    HONE_RETURN_IF_ERROR(Create(path));
    report.created = true;
  }
  HONE_ASSIGN_OR_RETURN(Opened opened,
                        TryOpen(path, busy_timeout, check_time_max, report.check_complete));
  if (!opened.damage.empty()) {
    report.damage = opened.damage;
    HONE_RETURN_IF_ERROR(StartAfresh(path, busy_timeout, report));
    HONE_ASSIGN_OR_RETURN(opened,
                          TryOpen(path, busy_timeout, check_time_max, report.check_complete));
    if (!opened.damage.empty()) {
      return absl::DataLossError(absl::StrCat("a new ", path, " is damaged: ", opened.damage));
    }
  }
  HONE_RETURN_IF_ERROR(CheckOwner(path, opened.schema));
  if (opened.schema.schema > kStoreSchema) {
    const std::string own = BackupPath(path, kStoreSchema);
    if (report.older_file || !Exists(own)) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " has schema ", opened.schema.schema, ", and this hone reads up to ",
                       kStoreSchema, "; use a newer hone or another cache directory"));
    }
    opened.database.reset();
    report.older_file = true;
    return OpenStoreFile(own, busy_timeout, check_time_max, report);
  }
  if (opened.schema.schema < kStoreSchema) {
    HONE_RETURN_IF_ERROR(BackUp(*opened.database, opened.schema.schema));
    report.migrated_from = opened.schema.schema;
    report.backup_path = BackupPath(path, opened.schema.schema);
    HONE_RETURN_IF_ERROR(Migrate(*opened.database, Migrations(), absl::ToUnixMillis(absl::Now())));
  }
  return std::move(opened.database);
}

}  // namespace hone
