// A connection that threads take turns on.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/mutex.h"
#include "runtime/store/sqlite_database.h"

namespace hone {

// Thread-safe.
class SqliteConnection {
 public:
  // The right to use the database; given back when destroyed. Must not outlive the connection.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)) {}
    Turn& operator=(Turn&& other) = delete;
    ~Turn();
    SqliteDatabase& database() const { return *connection_->database_; }

   private:
    friend class SqliteConnection;
    explicit Turn(SqliteConnection* connection) : connection_(connection) {}
    SqliteConnection* connection_;
  };

  // `wait_max` bounds a caller's whole wait: for its turn and then, with what is left of it, for
  // other processes' locks.
  SqliteConnection(std::unique_ptr<SqliteDatabase> database, absl::Duration wait_max);

  // UNAVAILABLE when the turn does not come in time.
  absl::StatusOr<Turn> TakeTurn();

 private:
  const std::unique_ptr<SqliteDatabase> database_;  // used by who holds the turn
  const absl::Duration wait_max_;
  Mutex mutex_;
  bool free_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace hone
