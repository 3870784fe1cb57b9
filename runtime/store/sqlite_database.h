// SQLite in three nouns: SqliteDatabase, a connection; its prepared statements, cached by their
// text; SqliteQuery, one run of a statement on the stack. And SqliteTransaction.
//
// SQL is only ever a literal of this program; values are bound.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/base/status_macros.h"

struct sqlite3;
struct sqlite3_stmt;

namespace hone {

// SQL text that is known when the program is built, so that no value can become SQL.
class Sql {
 public:
  template <size_t N>
  consteval Sql(const char (&text)[N]) : text_(text), size_(N - 1) {}  // NOLINT: implicit by design
  const char* text() const { return text_; }
  size_t size() const { return size_; }

 private:
  const char* text_;
  size_t size_;
};

// Bytes to bind as a BLOB; views them.
struct Blob {
  absl::string_view bytes;
};

// One run of a prepared statement. Move-only; ends the run when destroyed. Must not outlive its
// database. Columns are numbered from 0 and may be read after Step returned true, until the next
// Step.
class SqliteQuery {
 public:
  SqliteQuery(SqliteQuery&& other) noexcept;
  SqliteQuery& operator=(SqliteQuery&& other) = delete;
  ~SqliteQuery();

  // True: there is a row. False: the end.
  absl::StatusOr<bool> Step();

  // Copies, so that they outlive the row. NULL reads as empty or 0.
  std::string Text(int column) const;
  int64_t Int(int column) const;
  double Double(int column) const;
  bool IsNull(int column) const;

 private:
  friend class SqliteDatabase;
  SqliteQuery(sqlite3_stmt* statement, class SqliteDatabase* database)
      : statement_(statement), database_(database) {}

  sqlite3_stmt* statement_;
  SqliteDatabase* database_;
};

// One connection. Not thread-safe. Every error names the file (see SqliteError).
class SqliteDatabase {
 public:
  enum class Mode { kReadWrite, kReadOnly, kCreate };

  // Sets what every connection of ours needs: foreign keys, distrust of the schema, no memory
  // mapping, full synchronisation, `busy_timeout`. FAILED_PRECONDITION if a file asked for
  // kReadWrite can only be read.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& path, Mode mode,
                                                              absl::Duration busy_timeout);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // Runs to the end, rows ignored.
  template <typename... Values>
  absl::Status Run(Sql sql, const Values&... values) {
    HONE_ASSIGN_OR_RETURN(SqliteQuery query, Query(sql, values...));
    while (true) {
      HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return absl::OkStatus();
    }
  }

  // Binds `values` to ?1, ?2, ... One run of a literal at a time: INTERNAL otherwise.
  template <typename... Values>
  absl::StatusOr<SqliteQuery> Query(Sql sql, const Values&... values) {
    HONE_ASSIGN_OR_RETURN(SqliteQuery query, Start(sql));
    [[maybe_unused]] int index = 0;
    absl::Status status;
    ((status = status.ok() ? Bind(query.statement_, ++index, values) : status), ...);
    HONE_RETURN_IF_ERROR(status);
    return query;
  }

  // The first column of the first row; 0 without a row.
  template <typename... Values>
  absl::StatusOr<int64_t> QueryInt(Sql sql, const Values&... values) {
    HONE_ASSIGN_OR_RETURN(SqliteQuery query, Query(sql, values...));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    return row ? query.Int(0) : 0;
  }

  // Several statements without values, separated by semicolons.
  absl::Status RunScript(Sql sql);

  // How long a statement waits for another process's lock.
  void SetBusyTimeout(absl::Duration timeout);
  // Rows that the last statement changed.
  int64_t changes() const;
  bool in_transaction() const;
  // Makes the statement that is running, on whatever thread, end with CANCELLED. Thread-safe.
  void Interrupt();
  // How long the write-ahead log gets before a commit copies it back into the file.
  absl::Status CopyLogBackEvery(int64_t bytes);
  // Copies the whole database into a new file.
  absl::Status BackUpTo(const std::string& path);

  const std::string& path() const { return path_; }
  absl::Status Error(int code) const;

 private:
  SqliteDatabase(sqlite3* handle, std::string path);
  absl::Status Configure(absl::Duration busy_timeout);
  absl::StatusOr<SqliteQuery> Start(Sql sql);
  absl::Status Bind(sqlite3_stmt* statement, int index, int64_t value);
  absl::Status Bind(sqlite3_stmt* statement, int index, int value) {
    return Bind(statement, index, static_cast<int64_t>(value));
  }
  absl::Status Bind(sqlite3_stmt* statement, int index, double value);
  absl::Status Bind(sqlite3_stmt* statement, int index, absl::string_view value);
  absl::Status Bind(sqlite3_stmt* statement, int index, const std::string& value) {
    return Bind(statement, index, absl::string_view(value));
  }
  absl::Status Bind(sqlite3_stmt* statement, int index, Blob value);
  absl::Status Bind(sqlite3_stmt* statement, int index, std::nullptr_t);

  sqlite3* const handle_;
  const std::string path_;
  std::map<const char*, sqlite3_stmt*> statements_;  // by the literal's address
};

// Rolls back when destroyed without Commit. Must not outlive its database.
class SqliteTransaction {
 public:
  // For writing: takes the write lock at once, so that a lock upgrade can never fail half-way.
  static absl::StatusOr<SqliteTransaction> Begin(SqliteDatabase* database);
  // For several reads of one state. Needs no Commit.
  static absl::StatusOr<SqliteTransaction> BeginReading(SqliteDatabase* database);
  SqliteTransaction(SqliteTransaction&& other) noexcept;
  SqliteTransaction& operator=(SqliteTransaction&& other) = delete;
  ~SqliteTransaction();

  // After an error nothing of the transaction is visible.
  absl::Status Commit();

 private:
  explicit SqliteTransaction(SqliteDatabase* database) : database_(database) {}
  SqliteDatabase* database_;
};

}  // namespace hone
