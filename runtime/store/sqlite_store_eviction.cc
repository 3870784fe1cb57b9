// Keeping a store below its bound.
//
// The file is kept below the bound less the log's share. Its thread begins to evict a sixteenth
// before that and ends an eighth before it, so that storing finds room and transactions stay few;
// the pages in between are free and are written again. Free pages go back to the file system when
// they are more than that, or when the file is above the bound (which was lowered).
#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"
#include "runtime/base/status_macros.h"
#include "runtime/store/sqlite_eviction.h"
#include "runtime/store/sqlite_store.h"

namespace hone {
namespace {

// One transaction holds the writing connection for some tens of milliseconds at most.
constexpr int64_t kEvictedBytesPerTransaction = int64_t{16} << 20;
constexpr int kEvictionsPerTransaction = 64;
constexpr size_t kUsesPerTransaction = 1000;
// How long copying the log back may wait for readers; it is tried again.
constexpr absl::Duration kCheckpointWait = absl::Milliseconds(100);

// Ahead of need, what was used a moment ago stays: a winner's binary is stored before it wins.
constexpr absl::Duration kJustUsed = absl::Seconds(10);

// Pages a row takes besides its own bytes: keys, indices, the map of pages.
int64_t WithOverhead(int64_t bytes) { return bytes + bytes / 64 + (int64_t{64} << 10); }

}  // namespace

int64_t SqliteStore::log_bytes_max() const { return LogBytesMax(options_.bytes_max); }

absl::StatusOr<SqliteStore::Space> SqliteStore::ReadSpace(SqliteDatabase& database) {
  HONE_ASSIGN_OR_RETURN(const int64_t page_bytes, database.QueryInt("PRAGMA page_size"));
  HONE_ASSIGN_OR_RETURN(const int64_t pages, database.QueryInt("PRAGMA page_count"));
  HONE_ASSIGN_OR_RETURN(const int64_t free_pages, database.QueryInt("PRAGMA freelist_count"));
  return Space{.file_bytes = pages * page_bytes, .free_bytes = free_pages * page_bytes};
}

absl::StatusOr<SqliteStore::Write> SqliteStore::BeginWriteOf(int64_t bytes) {
  if (options_.bytes_max == 0) return BeginWrite();
  const int64_t needed = WithOverhead(bytes);
  const int64_t file_max = file_bytes_max();
  const absl::Time deadline = absl::Now() + options_.busy_wait_max;
  bool trimmed = false;
  while (true) {
    int64_t used_bytes = 0;
    HONE_RETURN_IF_ERROR(KeepLogShort(needed));
    {
      // Looked at in the transaction, so that two writers never take the same room.
      HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
      HONE_ASSIGN_OR_RETURN(const Space space, ReadSpace(write.database()));
      used_bytes = space.used_bytes();
      if (used_bytes + needed > file_max - file_max / 16) RequestTrim(0);
      if (used_bytes + needed <= file_max) return write;
    }
    if (needed > file_max || (trimmed && exhausted_)) {
      return WithErrorInfo(
          absl::ResourceExhaustedError(absl::StrCat(
              "the store may take ", options_.bytes_max, " bytes (store-max-bytes), and ", bytes,
              " more do not fit: ", used_bytes, " are in use by what is not evicted")),
          {.reason = "STORE_FULL",
           .needed = needed,
           .available = std::max<int64_t>(0, file_max - used_bytes)});
    }
    if (absl::Now() >= deadline || !AwaitTrim(RequestTrim(needed), deadline)) {
      return WithErrorInfo(absl::UnavailableError(absl::StrCat(
                               open_report_.path, " has been making room for ", bytes,
                               " bytes for ", absl::FormatDuration(options_.busy_wait_max))),
                           {.reason = "STORE_BUSY", .retry_after_ms = 1000});
    }
    trimmed = true;
  }
}

int64_t SqliteStore::RequestTrim(int64_t bytes) {
  MutexLock lock(&trim_mutex_);
  room_wanted_bytes_ = std::max(room_wanted_bytes_, bytes);
  return ++trims_requested_;
}

bool SqliteStore::AwaitTrim(int64_t ticket, absl::Time deadline) {
  MutexLock lock(&trim_mutex_);
  const auto done = [&] { return trims_done_ >= ticket || closing_; };
  return trim_mutex_.AwaitWithDeadline(absl::Condition(&done), deadline) && !closing_;
}

void SqliteStore::TrimLoop() {
  while (true) {
    int64_t ticket = 0, room_bytes = 0;
    bool asked = false;
    {
      MutexLock lock(&trim_mutex_);
      const auto wanted = [&] { return closing_ || trims_requested_ > trims_done_; };
      trim_mutex_.AwaitWithTimeout(absl::Condition(&wanted), options_.uses_written_every);
      if (closing_) return;
      asked = trims_requested_ > trims_done_;
      ticket = trims_requested_;
      room_bytes = std::exchange(room_wanted_bytes_, 0);
    }
    // Best effort: uses noted meanwhile are written with the next, and who waits for room looks.
    WriteUses().IgnoreError();
    if (!asked) continue;
    Trim(room_bytes);
    MutexLock lock(&trim_mutex_);
    trims_done_ = ticket;
  }
}

void SqliteStore::Trim(int64_t room_bytes) {
  const bool needed = room_bytes > 0;
  const absl::Time used_before = needed ? absl::InfiniteFuture() : absl::Now() - kJustUsed;
  bool spent = false, begun = false;
  absl::Status status;
  while (options_.bytes_max > 0 && status.ok()) {
    {
      MutexLock lock(&trim_mutex_);
      if (closing_) return;
    }
    Space space;
    {
      const auto turn = reader_.TakeTurn();
      const auto read = turn.ok() ? ReadSpace(turn->database()) : turn.status();
      if (!read.ok()) break;
      space = *read;
    }
    const int64_t file_max = file_bytes_max();
    const int64_t target =
        std::max<int64_t>(0, std::min(file_max - file_max / 8, file_max - room_bytes));
    const int64_t start = needed ? file_max - room_bytes : file_max - file_max / 16;
    if (space.used_bytes() <= (begun ? target : start)) break;
    begun = true;
    const auto evicted = EvictSome(space.used_bytes() - target, used_before);
    status = evicted.status();
    // Where a little could be evicted, the next look decides whether it was enough.
    spent = evicted.ok() && *evicted == 0;
    if (spent) break;
  }
  if (needed || !spent) exhausted_ = spent;
  // Best effort: it is tried again with the next trim.
  ReturnSpace().IgnoreError();
}

absl::StatusOr<int64_t> SqliteStore::EvictSome(int64_t bytes, absl::Time used_before) {
  HONE_RETURN_IF_ERROR(WriteUses());
  HONE_RETURN_IF_ERROR(KeepLogShort(WithOverhead(0)));
  HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
  HONE_ASSIGN_OR_RETURN(
      const std::vector<EvictionCandidate> evicted,
      EvictionCandidates(write.database(), *uses_, std::min(bytes, kEvictedBytesPerTransaction),
                         kEvictionsPerTransaction, absl::ToUnixMicros(used_before)));
  int64_t evicted_bytes = 0;
  for (const EvictionCandidate& artifact : evicted) {
    HONE_RETURN_IF_ERROR(
        write.database().Run("DELETE FROM artifact_keys WHERE sha256 = ?1", artifact.sha256));
    HONE_RETURN_IF_ERROR(
        write.database().Run("DELETE FROM artifacts WHERE sha256 = ?1", artifact.sha256));
    evicted_bytes += artifact.size_bytes;
  }
  HONE_RETURN_IF_ERROR(write.Commit());
  evictions_ += static_cast<int64_t>(evicted.size());
  evicted_bytes_ += evicted_bytes;
  return evicted_bytes;
}

absl::Status SqliteStore::WriteUses() {
  const auto noted = uses_->TakeNoted();
  for (size_t begin = 0; begin < noted.size(); begin += kUsesPerTransaction) {
    HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
    const size_t end = std::min(noted.size(), begin + kUsesPerTransaction);
    for (size_t i = begin; i < end; ++i) {
      HONE_RETURN_IF_ERROR(
          write.database().Run("UPDATE artifact_uses SET used_at_unix_us = ?2 WHERE sha256 = ?1",
                               noted[i].first, noted[i].second));
    }
    HONE_RETURN_IF_ERROR(write.Commit());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::ReturnSpace() {
  const int64_t file_max = file_bytes_max();
  bool returned = false;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, writer_.TakeTurn());
    SqliteDatabase& database = turn.database();
    HONE_ASSIGN_OR_RETURN(const Space space, ReadSpace(database));
    const int64_t kept_free =
        options_.bytes_max > 0 ? file_max / 4 : std::max(space.file_bytes / 4, int64_t{64} << 20);
    const bool above = options_.bytes_max > 0 && space.file_bytes > file_max;
    if (space.free_bytes > 0 && (above || space.free_bytes > kept_free)) {
      // 2 MiB at a time: moving pages is writing them.
      HONE_RETURN_IF_ERROR(database.Run("PRAGMA incremental_vacuum(256)"));
      returned = true;
      if (LogBytes() <= log_bytes_max() || options_.bytes_max == 0) continue;
      database.SetBusyTimeout(kCheckpointWait);
      HONE_RETURN_IF_ERROR(database.Run("PRAGMA wal_checkpoint(TRUNCATE)"));
      continue;
    }
    const bool long_log = options_.bytes_max > 0 && LogBytes() > log_bytes_max();
    if (!returned && !long_log) return absl::OkStatus();
    // The file shrinks when its log is copied back.
    database.SetBusyTimeout(kCheckpointWait);
    return database.Run("PRAGMA wal_checkpoint(TRUNCATE)");
  }
}

absl::Status SqliteStore::KeepLogShort(int64_t bytes) {
  const int64_t log_bytes = LogBytes();
  const int64_t log_max = log_bytes_max();
  // A quarter is left to the small writes that nobody counts.
  if (log_bytes <= log_max / 2 || log_bytes + bytes <= log_max / 4 * 3) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, writer_.TakeTurn());
  // Best effort: the log is the longer for it, and the next write tries again.
  turn.database().Run("PRAGMA wal_checkpoint(TRUNCATE)").IgnoreError();
  return absl::OkStatus();
}

int64_t SqliteStore::LogBytes() const {
  struct stat log {};
  const bool found = stat(absl::StrCat(open_report_.path, "-wal").c_str(), &log) == 0;
  return found ? log.st_size : 0;
}

StoreRoom SqliteStore::Room() {
  return {.bytes_max = options_.bytes_max,
          .evictions = evictions_,
          .evicted_bytes = evicted_bytes_,
          .exhausted = exhausted_};
}

}  // namespace hone
