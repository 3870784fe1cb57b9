#include "runtime/store/sqlite_connection.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"

namespace hone {

SqliteConnection::SqliteConnection(std::unique_ptr<SqliteDatabase> database,
                                   absl::Duration wait_max)
    : database_(std::move(database)), wait_max_(wait_max) {}

absl::StatusOr<SqliteConnection::Turn> SqliteConnection::TakeTurn() {
  const absl::Time deadline = absl::Now() + wait_max_;
  mutex_.Lock();
  const bool mine = mutex_.AwaitWithDeadline(absl::Condition(&free_), deadline);
  if (mine) free_ = false;
  mutex_.Unlock();
  if (!mine) {
    return WithErrorInfo(absl::UnavailableError(absl::StrCat(database_->path(), " was busy for ",
                                                             absl::FormatDuration(wait_max_))),
                         {.reason = "STORE_BUSY", .retry_after_ms = 1000});
  }
  Turn turn(this);
  // At least a moment, so that a turn that came late can still pass a lock held briefly.
  database_->SetBusyTimeout(std::max(deadline - absl::Now(), absl::Milliseconds(10)));
  return turn;
}

SqliteConnection::Turn::~Turn() {
  if (connection_ == nullptr) return;
  MutexLock lock(&connection_->mutex_);
  connection_->free_ = true;
}

}  // namespace hone
