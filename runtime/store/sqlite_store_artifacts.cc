// Artifacts and logs: what is kept as bytes and checked against its hash.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/sha256.h"
#include "runtime/store/sqlite_schema.h"
#include "runtime/store/sqlite_store.h"
#include "runtime/store/stored_rows.h"

namespace hone {
namespace {

// Most logs are a few lines; with the bound on bytes this keeps the table's scan below a
// millisecond.
constexpr int64_t kLogRowsMax = 4096;

// The log's head and tail when it is longer than `bytes_max`; adds what is left out to
// `truncated_bytes`.
std::string Shorten(const std::string& log, int64_t bytes_max, int64_t& truncated_bytes) {
  const auto limit = static_cast<size_t>(bytes_max);
  if (log.size() <= limit) return log;
  const size_t left_out = log.size() - limit;
  truncated_bytes += static_cast<int64_t>(left_out);
  const size_t tail = limit / 2;
  return absl::StrCat(log.substr(0, limit - tail), "\n[", left_out, " bytes left out]\n",
                      log.substr(log.size() - tail));
}

}  // namespace

absl::Status SqliteStore::PutArtifact(const Key& key, const Artifact& artifact) {
  const std::string actual = Sha256Hex(artifact.bytes);
  if (actual != artifact.sha256) {
    return absl::InvalidArgumentError(
        absl::StrCat("artifact.sha256 is '", artifact.sha256, "', but the bytes hash to ", actual));
  }
  const std::string record = EncodeArtifact(key, artifact);
  // Kept already under another key: only the row is new. If it is evicted in between, the store is
  // above its bound by one artifact until the next is stored.
  HONE_ASSIGN_OR_RETURN(const bool known, HasBytes(actual));
  const size_t bytes = record.size() + (known ? 0 : artifact.bytes.size());
  HONE_ASSIGN_OR_RETURN(Write write, BeginWriteOf(static_cast<int64_t>(bytes)));
  SqliteDatabase& database = write.database();
  // Also heals bytes that were damaged on the disk.
  HONE_RETURN_IF_ERROR(
      database.Run("INSERT INTO artifacts VALUES (?1, ?2, ?3)"
                   " ON CONFLICT (sha256) DO UPDATE SET bytes = excluded.bytes"
                   " WHERE bytes IS NOT excluded.bytes",
                   actual, absl::ToUnixMillis(absl::Now()), Blob{artifact.bytes}));
  std::string replaced;
  {
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery query,
        database.Query("SELECT sha256 FROM artifact_keys WHERE key = ?1", key.id()));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (row) replaced = query.Text(0);
  }
  HONE_RETURN_IF_ERROR(database.Run(
      "INSERT OR REPLACE INTO artifact_keys (key, sha256, record, seal) VALUES (?1, ?2, ?3, ?4)",
      key.id(), actual, record, Seal(key.id(), record)));
  if (!replaced.empty() && replaced != actual) {
    HONE_RETURN_IF_ERROR(
        database.Run("DELETE FROM artifacts WHERE sha256 = ?1 AND NOT EXISTS"
                     " (SELECT 1 FROM artifact_keys WHERE sha256 = ?1)",
                     replaced));
  }
  HONE_RETURN_IF_ERROR(write.Commit());
  uses_->Note(actual);
  return absl::OkStatus();
}

absl::StatusOr<bool> SqliteStore::HasBytes(const std::string& sha256) {
  HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
  HONE_ASSIGN_OR_RETURN(
      const int64_t rows,
      turn.database().QueryInt("SELECT count(*) FROM artifact_uses WHERE sha256 = ?1", sha256));
  return rows > 0;
}

absl::StatusOr<std::optional<Artifact>> SqliteStore::GetArtifact(const std::string& key_id) {
  std::string record, seal, bytes;
  {
    HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
    HONE_ASSIGN_OR_RETURN(SqliteQuery query,
                          turn.database().Query("SELECT record, seal, bytes FROM artifact_keys"
                                                " JOIN artifacts USING (sha256) WHERE key = ?1",
                                                key_id));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return std::nullopt;
    record = query.Text(0);
    seal = query.Text(1);
    bytes = query.Text(2);
  }
  if (Seal(key_id, record) != seal) {
    DropRow("DELETE FROM artifact_keys WHERE key = ?1", key_id);
    return Damaged("artifact key", key_id);
  }
  HONE_ASSIGN_OR_RETURN(Artifact artifact, DecodeArtifact(record));
  if (Sha256Hex(bytes) != artifact.sha256) {
    QuarantineArtifact(artifact.sha256).IgnoreError();  // the caller is told either way
    return Damaged("artifact", artifact.sha256);
  }
  uses_->Note(artifact.sha256);
  artifact.bytes = std::move(bytes);
  return artifact;
}

absl::StatusOr<std::optional<Artifact>> SqliteStore::GetArtifactBySha256(
    const std::string& sha256) {
  std::optional<Artifact> artifact;
  std::string damaged_key, bytes;
  {
    HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
    HONE_ASSIGN_OR_RETURN(const SqliteTransaction transaction,
                          SqliteTransaction::BeginReading(&turn.database()));
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery keys,
        turn.database().Query("SELECT key, record, seal FROM artifact_keys WHERE sha256 = ?1"
                              " ORDER BY sequence DESC",
                              sha256));
    while (damaged_key.empty()) {
      HONE_ASSIGN_OR_RETURN(const bool row, keys.Step());
      if (!row) break;
      if (Seal(keys.Text(0), keys.Text(1)) != keys.Text(2)) {
        damaged_key = keys.Text(0);
        break;
      }
      HONE_ASSIGN_OR_RETURN(Artifact described, DecodeArtifact(keys.Text(1)));
      if (!artifact.has_value()) {
        artifact = std::move(described);
      } else {
        artifact->lowered_names.merge(described.lowered_names);
      }
    }
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery query,
        turn.database().Query("SELECT bytes FROM artifacts WHERE sha256 = ?1", sha256));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (row) bytes = query.Text(0);
  }
  if (!damaged_key.empty()) {
    DropRow("DELETE FROM artifact_keys WHERE key = ?1", damaged_key);
    return Damaged("artifact key", damaged_key);
  }
  if (!artifact.has_value()) return std::nullopt;
  if (Sha256Hex(bytes) != sha256) {
    QuarantineArtifact(sha256).IgnoreError();  // the caller is told either way
    return Damaged("artifact", sha256);
  }
  uses_->Note(sha256);
  artifact->bytes = std::move(bytes);
  return artifact;
}

absl::Status SqliteStore::QuarantineArtifact(const std::string& sha256) {
  HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
  HONE_RETURN_IF_ERROR(write.database().Run("DELETE FROM artifact_keys WHERE sha256 = ?1", sha256));
  HONE_RETURN_IF_ERROR(write.database().Run("DELETE FROM artifacts WHERE sha256 = ?1", sha256));
  return write.Commit();
}

absl::StatusOr<std::string> SqliteStore::PutLog(const std::string& log, int64_t truncated_bytes) {
  const std::string kept = Shorten(log, options_.log_bytes_max, truncated_bytes);
  const std::string id = Sha256Hex(kept);
  HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
  HONE_RETURN_IF_ERROR(write.database().Run(
      "INSERT OR REPLACE INTO logs (id, size_bytes, truncated_bytes, log) VALUES (?1, ?2, ?3, ?4)",
      id, static_cast<int64_t>(kept.size()), truncated_bytes, kept));
  HONE_RETURN_IF_ERROR(write.database().Run(
      "DELETE FROM logs WHERE sequence IN (SELECT sequence FROM"
      " (SELECT sequence, row_number() OVER newest AS rows, sum(size_bytes) OVER newest AS bytes"
      "  FROM logs WINDOW newest AS (ORDER BY sequence DESC))"
      " WHERE rows > 1 AND (rows > ?1 OR bytes > ?2))",
      kLogRowsMax, options_.logs_bytes_max));
  HONE_RETURN_IF_ERROR(write.Commit());
  return id;
}

absl::StatusOr<std::optional<std::pair<std::string, int64_t>>> SqliteStore::GetLog(
    const std::string& log_id) {
  std::pair<std::string, int64_t> log;
  {
    HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery query,
        turn.database().Query("SELECT log, truncated_bytes FROM logs WHERE id = ?1", log_id));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return std::nullopt;
    log = {query.Text(0), query.Int(1)};
  }
  if (Sha256Hex(log.first) != log_id) {
    DropRow("DELETE FROM logs WHERE id = ?1", log_id);
    return Damaged("log", log_id);
  }
  return log;
}

}  // namespace hone
