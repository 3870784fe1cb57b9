#include "runtime/store/sqlite_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/store/sqlite_eviction.h"
#include "runtime/store/sqlite_schema.h"

namespace hone {

using Mode = SqliteDatabase::Mode;

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(SqliteStoreOptions options) {
  const std::string directory = std::filesystem::path(options.path).parent_path().string();
  if (options.path.empty() || directory.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("store path '", options.path, "' has no directory; give DIRECTORY/FILE"));
  }
  HONE_RETURN_IF_ERROR(PrepareLocalDirectory(directory, options.file_system_type));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<InstanceLock> lock,
                        InstanceLock::Acquire(options.path + ".lock"));
  OpenReport report;
  HONE_ASSIGN_OR_RETURN(
      std::unique_ptr<SqliteDatabase> writer,
      OpenStoreFile(options.path, options.busy_wait_max, options.check_time_max, report));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> reader,
                        SqliteDatabase::Open(report.path, Mode::kReadOnly, options.busy_wait_max));
  // SQLite opens lazily: the first read opens the log's shared memory, the first write lock shows
  // whether it may be written. Better told now than by the first caller.
  HONE_RETURN_IF_ERROR(ReadSchema(*reader).status());
  if (options.bytes_max > 0) {
    const int64_t log_bytes_max = LogBytesMax(options.bytes_max);
    HONE_RETURN_IF_ERROR(writer->CopyLogBackEvery(log_bytes_max / 2));
    options.logs_bytes_max = std::min(options.logs_bytes_max, log_bytes_max);
  }
  HONE_RETURN_IF_ERROR(SqliteTransaction::Begin(writer.get()).status());
  return std::unique_ptr<SqliteStore>(new SqliteStore(std::move(options), std::move(lock),
                                                      std::move(report), std::move(writer),
                                                      std::move(reader)));
}

SqliteStore::SqliteStore(SqliteStoreOptions options, std::unique_ptr<InstanceLock> lock,
                         OpenReport open_report, std::unique_ptr<SqliteDatabase> writer,
                         std::unique_ptr<SqliteDatabase> reader)
    : options_(std::move(options)),
      lock_(std::move(lock)),
      open_report_(std::move(open_report)),
      writer_(std::move(writer), options_.busy_wait_max),
      reader_(std::move(reader), options_.busy_wait_max) {
  // Last: it uses everything else. A file above a bound that was lowered is trimmed at once.
  RequestTrim(options_.bytes_max > 0 ? 1 : 0);
  trimmer_ = std::thread([this] { TrimLoop(); });
}

SqliteStore::~SqliteStore() {
  {
    MutexLock lock(&trim_mutex_);
    closing_ = true;
  }
  trimmer_.join();
  // Best effort: an eviction may then take what a use would have spared.
  WriteUses().IgnoreError();
}

absl::StatusOr<SqliteStore::Write> SqliteStore::BeginWrite() {
  HONE_ASSIGN_OR_RETURN(SqliteConnection::Turn turn, writer_.TakeTurn());
  HONE_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(&turn.database()));
  return Write{std::move(turn), std::move(transaction)};
}

absl::Status SqliteStore::Damaged(absl::string_view what, absl::string_view key) const {
  return absl::DataLossError(absl::StrCat("the stored ", what, " ", key, " is damaged (",
                                          open_report_.path, "); it has been dropped"));
}

absl::StatusOr<int64_t> SqliteStore::SizeBytes() {
  int64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    struct stat info;
    if (stat(absl::StrCat(open_report_.path, suffix).c_str(), &info) == 0) bytes += info.st_size;
  }
  return bytes;
}

}  // namespace hone
