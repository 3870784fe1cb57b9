#include "runtime/store/sqlite_database.h"

#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/store/sqlite_error.h"

namespace hone {

SqliteQuery::SqliteQuery(SqliteQuery&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)), database_(other.database_) {}

SqliteQuery::~SqliteQuery() {
  if (statement_ == nullptr) return;
  // The run's error, if any, was Step's to report.
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

absl::StatusOr<bool> SqliteQuery::Step() {
  errno = 0;  // see SqliteError
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->Error(code);
}

std::string SqliteQuery::Text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string()
                          : std::string(static_cast<const char*>(bytes), static_cast<size_t>(size));
}

int64_t SqliteQuery::Int(int column) const { return sqlite3_column_int64(statement_, column); }

double SqliteQuery::Double(int column) const { return sqlite3_column_double(statement_, column); }

bool SqliteQuery::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

SqliteDatabase::SqliteDatabase(sqlite3* handle, std::string path)
    : handle_(handle), path_(std::move(path)) {}

SqliteDatabase::~SqliteDatabase() {
  for (const auto& [text, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& path,
                                                                     Mode mode,
                                                                     absl::Duration busy_timeout) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  if (mode == Mode::kCreate) flags |= SQLITE_OPEN_CREATE;
  sqlite3* handle = nullptr;
  errno = 0;  // see SqliteError
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  if (code != SQLITE_OK) {
    const absl::Status status = SqliteError(code, handle, path);
    sqlite3_close(handle);
    return status;
  }
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(handle, path));
  HONE_RETURN_IF_ERROR(database->Configure(busy_timeout));
  if (mode != Mode::kReadOnly && sqlite3_db_readonly(handle, "main") == 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " cannot be written: it or its file system is read-only"));
  }
  return database;
}

absl::Status SqliteDatabase::Configure(absl::Duration busy_timeout) {
  SetBusyTimeout(busy_timeout);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // FULL: a commit that was answered survives a power loss. No memory mapping: a failing disk then
  // gives an error, not SIGBUS. 64 MiB: what a burst leaves of the write-ahead log. Debian's SQLite
  // overwrites what is deleted; FAST leaves that out where it costs writes, as it does for
  // binaries.
  return RunScript(
      "PRAGMA foreign_keys = ON;"
      "PRAGMA synchronous = FULL;"
      "PRAGMA cell_size_check = ON;"
      "PRAGMA mmap_size = 0;"
      "PRAGMA temp_store = MEMORY;"
      "PRAGMA secure_delete = FAST;"
      "PRAGMA journal_size_limit = 67108864;");
}

absl::Status SqliteDatabase::Error(int code) const { return SqliteError(code, handle_, path_); }

absl::StatusOr<SqliteQuery> SqliteDatabase::Start(Sql sql) {
  sqlite3_stmt*& statement = statements_[sql.text()];
  if (statement == nullptr) {
    const int code = sqlite3_prepare_v3(handle_, sql.text(), static_cast<int>(sql.size()) + 1,
                                        SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) return Error(code);
  }
  if (sqlite3_stmt_busy(statement) != 0) {
    return absl::InternalError(absl::StrCat("statement is already running: ", sql.text()));
  }
  return SqliteQuery(statement, this);
}

absl::Status SqliteDatabase::Bind(sqlite3_stmt* statement, int index, int64_t value) {
  const int code = sqlite3_bind_int64(statement, index, value);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::Status SqliteDatabase::Bind(sqlite3_stmt* statement, int index, double value) {
  const int code = sqlite3_bind_double(statement, index, value);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

// SQLITE_TRANSIENT (a copy): a caller's temporary may be gone before the statement is stepped.
absl::Status SqliteDatabase::Bind(sqlite3_stmt* statement, int index, absl::string_view value) {
  const int code =
      sqlite3_bind_text64(statement, index, value.data() == nullptr ? "" : value.data(),
                          value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::Status SqliteDatabase::Bind(sqlite3_stmt* statement, int index, Blob value) {
  const int code = value.bytes.empty() ? sqlite3_bind_zeroblob(statement, index, 0)
                                       : sqlite3_bind_blob64(statement, index, value.bytes.data(),
                                                             value.bytes.size(), SQLITE_TRANSIENT);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::Status SqliteDatabase::Bind(sqlite3_stmt* statement, int index, std::nullptr_t) {
  const int code = sqlite3_bind_null(statement, index);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::Status SqliteDatabase::RunScript(Sql sql) {
  errno = 0;  // see SqliteError
  const int code = sqlite3_exec(handle_, sql.text(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

void SqliteDatabase::SetBusyTimeout(absl::Duration timeout) {
  sqlite3_busy_timeout(handle_, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
}

int64_t SqliteDatabase::changes() const { return sqlite3_changes64(handle_); }

bool SqliteDatabase::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

void SqliteDatabase::Interrupt() { sqlite3_interrupt(handle_); }

absl::Status SqliteDatabase::CopyLogBackEvery(int64_t bytes) {
  HONE_ASSIGN_OR_RETURN(const int64_t page_bytes, QueryInt("PRAGMA page_size"));
  const int64_t pages = std::clamp<int64_t>(bytes / page_bytes, 1, 1 << 20);
  const int code = sqlite3_wal_autocheckpoint(handle_, static_cast<int>(pages));
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::Status SqliteDatabase::BackUpTo(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> copy,
                        Open(path, Mode::kCreate, absl::ZeroDuration()));
  sqlite3_backup* backup = sqlite3_backup_init(copy->handle_, "main", handle_, "main");
  if (backup == nullptr) return copy->Error(sqlite3_extended_errcode(copy->handle_));
  const int code = sqlite3_backup_step(backup, -1);
  sqlite3_backup_finish(backup);
  return code == SQLITE_DONE ? absl::OkStatus() : SqliteError(code, nullptr, path);
}

absl::StatusOr<SqliteTransaction> SqliteTransaction::Begin(SqliteDatabase* database) {
  HONE_RETURN_IF_ERROR(database->Run("BEGIN IMMEDIATE"));
  return SqliteTransaction(database);
}

absl::StatusOr<SqliteTransaction> SqliteTransaction::BeginReading(SqliteDatabase* database) {
  HONE_RETURN_IF_ERROR(database->Run("BEGIN"));
  return SqliteTransaction(database);
}

SqliteTransaction::SqliteTransaction(SqliteTransaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

SqliteTransaction::~SqliteTransaction() {
  if (database_ == nullptr || !database_->in_transaction()) return;
  // Cannot fail in a way that leaves anything visible: what was not committed is not in the log.
  database_->Run("ROLLBACK").IgnoreError();
}

absl::Status SqliteTransaction::Commit() { return database_->Run("COMMIT"); }

}  // namespace hone
