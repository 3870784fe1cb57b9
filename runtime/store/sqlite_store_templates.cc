// Templates, header sets and misses.
#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "runtime/store/sqlite_schema.h"
#include "runtime/store/sqlite_store.h"
#include "runtime/store/stored_rows.h"

namespace hone {

absl::Status SqliteStore::PutTemplate(const StoredTemplate& stored) {
  const std::string record = EncodeTemplate(stored);
  HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
  HONE_RETURN_IF_ERROR(write.database().Run(
      "INSERT INTO templates (digest, name, record, seal) VALUES (?1, ?2, ?3, ?4)"
      " ON CONFLICT (digest) DO UPDATE SET name = excluded.name, record = excluded.record,"
      " seal = excluded.seal",
      stored.digest, stored.name, record, Seal(stored.digest, record)));
  return write.Commit();
}

absl::StatusOr<std::vector<StoredTemplate>> SqliteStore::ListTemplates() {
  std::vector<StoredTemplate> templates;
  std::string damaged;
  {
    HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery query,
        turn.database().Query("SELECT digest, record, seal FROM templates ORDER BY sequence"));
    while (damaged.empty()) {
      HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) break;
      if (Seal(query.Text(0), query.Text(1)) != query.Text(2)) {
        damaged = query.Text(0);
        break;
      }
      HONE_ASSIGN_OR_RETURN(StoredTemplate stored, DecodeTemplate(query.Text(1)));
      templates.push_back(std::move(stored));
    }
  }
  if (damaged.empty()) return templates;
  DropRow("DELETE FROM templates WHERE digest = ?1", damaged);
  return Damaged("template", damaged);
}

absl::Status SqliteStore::PutHeaderSet(const std::string& digest, const std::string& name,
                                       const std::vector<SourceFile>& files) {
  const std::string record = EncodeFiles(files);
  HONE_ASSIGN_OR_RETURN(Write write, BeginWriteOf(static_cast<int64_t>(record.size())));
  // Replaced as a whole row, which makes it the newest under its name.
  HONE_RETURN_IF_ERROR(write.database().Run(
      "INSERT OR REPLACE INTO header_sets (digest, name, record, seal) VALUES (?1, ?2, ?3, ?4)",
      digest, name, record, Seal(digest, record)));
  return write.Commit();
}

absl::StatusOr<std::optional<std::vector<SourceFile>>> SqliteStore::GetHeaderSet(
    const std::string& digest) {
  std::string record, seal;
  {
    HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery query,
        turn.database().Query("SELECT record, seal FROM header_sets WHERE digest = ?1", digest));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return std::nullopt;
    record = query.Text(0);
    seal = query.Text(1);
  }
  if (Seal(digest, record) != seal) {
    DropRow("DELETE FROM header_sets WHERE digest = ?1", digest);
    return Damaged("header set", digest);
  }
  return DecodeFiles(record);
}

absl::StatusOr<std::optional<std::string>> SqliteStore::FindHeaderSet(
    const std::string& name_or_digest) {
  HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
  HONE_ASSIGN_OR_RETURN(
      SqliteQuery query,
      turn.database().Query("SELECT digest FROM header_sets WHERE digest = ?1 OR name = ?1"
                            " ORDER BY digest = ?1 DESC, sequence DESC LIMIT 1",
                            name_or_digest));
  HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
  if (!row) return std::nullopt;
  return query.Text(0);
}

absl::StatusOr<std::vector<StoredHeaderSet>> SqliteStore::ListHeaderSets() {
  HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
  HONE_ASSIGN_OR_RETURN(
      SqliteQuery query,
      turn.database().Query("SELECT name, digest FROM header_sets ORDER BY sequence DESC"));
  std::vector<StoredHeaderSet> sets;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return sets;
    sets.push_back({.name = query.Text(0), .digest = query.Text(1)});
  }
}

absl::Status SqliteStore::RecordMisses(const std::vector<Miss>& misses) {
  HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, writer_.TakeTurn());
  SqliteDatabase& database = turn.database();
  // Misses come as often as callers like; a sync each would let them fill the disk's queue, and a
  // count lost with the power is no loss. Outside the transaction: inside it SQLite refuses.
  HONE_RETURN_IF_ERROR(database.RunScript("PRAGMA synchronous = NORMAL"));
  const auto restore =
      absl::MakeCleanup([&] { database.RunScript("PRAGMA synchronous = FULL").IgnoreError(); });
  HONE_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(&database));
  for (const Miss& miss : misses) {
    HONE_RETURN_IF_ERROR(
        database.Run("INSERT INTO misses VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
                     " ON CONFLICT DO UPDATE SET count = count + excluded.count,"
                     " last_at_unix_ms = max(last_at_unix_ms, excluded.last_at_unix_ms),"
                     " bucket_key = excluded.bucket_key",
                     miss.template_digest, miss.problem, miss.architecture, miss.policy,
                     miss.tuning_key, miss.bucket_key, miss.template_name,
                     std::max<int64_t>(1, miss.count), miss.last_at_unix_ms));
  }
  HONE_RETURN_IF_ERROR(
      database.Run("DELETE FROM misses WHERE rowid IN (SELECT rowid FROM misses"
                   " ORDER BY last_at_unix_ms DESC, rowid DESC LIMIT -1 OFFSET ?1)",
                   options_.misses_max));
  return transaction.Commit();
}

absl::StatusOr<std::vector<Miss>> SqliteStore::ListMisses(const MissFilter& filter) {
  HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
  HONE_ASSIGN_OR_RETURN(
      SqliteQuery query,
      turn.database().Query("SELECT template_name, template_digest, problem, architecture, policy,"
                            " tuning_key, bucket_key, count, last_at_unix_ms FROM misses"
                            " WHERE (?1 = '' OR template_name = ?1) AND last_at_unix_ms >= ?2"
                            " AND NOT EXISTS (SELECT 1 FROM measurements m WHERE m.tuning_key IN"
                            "  (misses.tuning_key, misses.bucket_key) AND m.rejection IS NULL)"
                            " ORDER BY count DESC, template_digest, problem, architecture, policy,"
                            " tuning_key LIMIT ?3",
                            filter.template_name, filter.since_unix_ms, std::max(0, filter.limit)));
  std::vector<Miss> misses;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return misses;
    misses.push_back({.template_name = query.Text(0),
                      .template_digest = query.Text(1),
                      .problem = query.Text(2),
                      .architecture = query.Text(3),
                      .policy = query.Text(4),
                      .tuning_key = query.Text(5),
                      .bucket_key = query.Text(6),
                      .count = query.Int(7),
                      .last_at_unix_ms = query.Int(8)});
  }
}

}  // namespace hone
