#include "runtime/store/sqlite_schema.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"

namespace hone {

// `sequence` columns give the order of first storing (measurements, templates) or of the last
// storing (artifact_keys, header_sets, which are replaced as whole rows).
const std::vector<Migration>& Migrations() {
  static const auto& migrations = *new std::vector<Migration>{
      {1,
       "CREATE TABLE schema_info ("
       "  schema INTEGER PRIMARY KEY, applied_at_unix_ms INTEGER NOT NULL) STRICT;"
       "CREATE TABLE counters ("
       "  name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;"
       "INSERT INTO counters VALUES ('generation', 0);"
       // Binaries by what they are ...
       "CREATE TABLE artifacts ("
       "  sha256 TEXT PRIMARY KEY, stored_at_unix_ms INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;"
       // ... and by what they were built from.
       "CREATE TABLE artifact_keys ("
       "  sequence INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE,"
       "  sha256 TEXT NOT NULL REFERENCES artifacts (sha256),"
       "  record TEXT NOT NULL, seal TEXT NOT NULL) STRICT;"
       "CREATE INDEX artifact_keys_by_sha256 ON artifact_keys (sha256);"
       "CREATE TABLE logs ("
       "  sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
       "  size_bytes INTEGER NOT NULL, truncated_bytes INTEGER NOT NULL, log TEXT NOT NULL) STRICT;"
       "CREATE INDEX logs_by_age ON logs (sequence, size_bytes);"
       "CREATE TABLE tunings ("
       "  key TEXT PRIMARY KEY, created_at_unix_ms INTEGER NOT NULL, template_name TEXT NOT NULL,"
       "  kernel_digest TEXT NOT NULL, device_key TEXT NOT NULL,"
       "  record TEXT NOT NULL, seal TEXT NOT NULL) STRICT;"
       "CREATE INDEX tunings_by_age ON tunings (created_at_unix_ms DESC, key);"
       "CREATE INDEX tunings_by_template ON tunings (template_name, created_at_unix_ms DESC, key);"
       "CREATE INDEX tunings_by_kernel ON tunings (kernel_digest, device_key);"
       "CREATE TABLE measurements ("
       "  sequence INTEGER PRIMARY KEY AUTOINCREMENT, tuning_key TEXT NOT NULL,"
       "  config TEXT NOT NULL, rejection INTEGER, median_ns REAL NOT NULL,"
       "  measured_at_unix_ms INTEGER NOT NULL, record TEXT NOT NULL, seal TEXT NOT NULL,"
       "  UNIQUE (tuning_key, config)) STRICT;"
       // A tuning with its counts, for listings and for people.
       "CREATE VIEW tuning_summaries AS SELECT t.*,"
       "  (SELECT count(*) FROM measurements WHERE tuning_key = t.key AND rejection IS NULL)"
       "    AS measured,"
       "  (SELECT count(rejection) FROM measurements WHERE tuning_key = t.key) AS rejected,"
       "  (SELECT max(measured_at_unix_ms) FROM measurements WHERE tuning_key = t.key)"
       "    AS last_measured_at_unix_ms FROM tunings t;"
       "CREATE TABLE winners ("
       "  tuning_key TEXT NOT NULL, template_digest TEXT NOT NULL, generation INTEGER NOT NULL,"
       "  record TEXT NOT NULL, seal TEXT NOT NULL,"
       "  PRIMARY KEY (tuning_key, template_digest)) STRICT;"
       "CREATE TABLE templates ("
       "  sequence INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE,"
       "  name TEXT NOT NULL, record TEXT NOT NULL, seal TEXT NOT NULL) STRICT;"
       "CREATE TABLE header_sets ("
       "  sequence INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE,"
       "  name TEXT NOT NULL, record TEXT NOT NULL, seal TEXT NOT NULL) STRICT;"
       "CREATE INDEX header_sets_by_name ON header_sets (name, sequence);"
       "CREATE TABLE misses ("
       "  template_digest TEXT NOT NULL, problem TEXT NOT NULL, architecture TEXT NOT NULL,"
       "  policy TEXT NOT NULL, template_name TEXT NOT NULL, count INTEGER NOT NULL,"
       "  last_at_unix_ms INTEGER NOT NULL,"
       "  PRIMARY KEY (template_digest, problem, architecture, policy)) STRICT;"
       "CREATE INDEX misses_by_age ON misses (last_at_unix_ms);"
       "PRAGMA user_version = 1;"},
      // What was measured of a device itself.
      {2,
       "CREATE TABLE devices ("
       "  key TEXT PRIMARY KEY, measured_at_unix_ms INTEGER NOT NULL,"
       "  record TEXT NOT NULL, seal TEXT NOT NULL) STRICT;"
       // `pinned` 0: unpinned since; the row stays for its generation.
       "CREATE TABLE pins ("
       "  tuning_key TEXT PRIMARY KEY, generation INTEGER NOT NULL, pinned INTEGER NOT NULL,"
       "  config TEXT NOT NULL, artifact_sha256 TEXT NOT NULL, record TEXT NOT NULL,"
       "  seal TEXT NOT NULL) STRICT;"
       // One winner for each way of choosing.
       "CREATE TABLE winners_by_numerics ("
       "  tuning_key TEXT NOT NULL, template_digest TEXT NOT NULL, generation INTEGER NOT NULL,"
       "  record TEXT NOT NULL, seal TEXT NOT NULL, numerics INTEGER NOT NULL,"
       "  PRIMARY KEY (tuning_key, template_digest, numerics)) STRICT;"
       "INSERT INTO winners_by_numerics"
       "  SELECT tuning_key, template_digest, generation, record, seal, 0 FROM winners;"
       "DROP TABLE winners;"
       "ALTER TABLE winners_by_numerics RENAME TO winners;"
       // When each binary was used last: apart from the bytes, so that noting it rewrites none.
       "CREATE TABLE artifact_uses ("
       "  sha256 TEXT PRIMARY KEY REFERENCES artifacts (sha256) ON DELETE CASCADE,"
       "  size_bytes INTEGER NOT NULL, used_at_unix_us INTEGER NOT NULL) STRICT;"
       "CREATE INDEX artifact_uses_by_age ON artifact_uses (used_at_unix_us);"
       "INSERT INTO artifact_uses"
       "  SELECT sha256, length(bytes), stored_at_unix_ms * 1000 FROM artifacts;"
       "CREATE TRIGGER artifact_uses_of_new AFTER INSERT ON artifacts BEGIN"
       "  INSERT INTO artifact_uses"
       "    VALUES (new.sha256, length(new.bytes), new.stored_at_unix_ms * 1000); END;"
       // Misses of two devices of one architecture are two misses.
       "ALTER TABLE misses RENAME TO misses_before;"
       "DROP INDEX misses_by_age;"
       "CREATE TABLE misses ("
       "  template_digest TEXT NOT NULL, problem TEXT NOT NULL, architecture TEXT NOT NULL,"
       "  policy TEXT NOT NULL, tuning_key TEXT NOT NULL, bucket_key TEXT NOT NULL,"
       "  template_name TEXT NOT NULL, count INTEGER NOT NULL, last_at_unix_ms INTEGER NOT NULL,"
       "  PRIMARY KEY (template_digest, problem, architecture, policy, tuning_key)) STRICT;"
       "INSERT INTO misses SELECT template_digest, problem, architecture, policy, '', '',"
       "  template_name, count, last_at_unix_ms FROM misses_before;"
       "DROP TABLE misses_before;"
       "CREATE INDEX misses_by_age ON misses (last_at_unix_ms);"
       "PRAGMA user_version = 2;"},
  };
  return migrations;
}

absl::StatusOr<SchemaState> ReadSchema(SqliteDatabase& database) {
  SchemaState state;
  HONE_ASSIGN_OR_RETURN(state.application_id, database.QueryInt("PRAGMA application_id"));
  HONE_ASSIGN_OR_RETURN(const int64_t schema, database.QueryInt("PRAGMA user_version"));
  state.schema = static_cast<int>(schema);
  return state;
}

absl::Status Migrate(SqliteDatabase& database, const std::vector<Migration>& migrations,
                     int64_t now_unix_ms) {
  HONE_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(&database));
  HONE_ASSIGN_OR_RETURN(const SchemaState before, ReadSchema(database));
  for (const Migration& migration : migrations) {
    if (migration.to_schema <= before.schema) continue;
    HONE_RETURN_IF_ERROR(database.RunScript(migration.script));
    HONE_RETURN_IF_ERROR(
        database.Run("INSERT INTO schema_info VALUES (?1, ?2)", migration.to_schema, now_unix_ms));
  }
  HONE_RETURN_IF_ERROR(database.RunScript("PRAGMA application_id = 1752133221;"));
  return transaction.Commit();
}

std::string Seal(absl::string_view key, absl::string_view record) {
  return Sha256Hex(absl::StrCat(key, "\n", record));
}

std::string MeasurementKey(absl::string_view tuning_key, absl::string_view config) {
  return absl::StrCat(tuning_key, " ", config);
}

absl::StatusOr<uint64_t> NextGeneration(SqliteDatabase& database) {
  HONE_ASSIGN_OR_RETURN(
      const int64_t next,
      database.QueryInt("UPDATE counters SET value = value + 1 WHERE name = 'generation'"
                        " RETURNING value"));
  return static_cast<uint64_t>(next);
}

absl::Status RequireTuning(SqliteDatabase& database, const std::string& key) {
  HONE_ASSIGN_OR_RETURN(const int64_t rows,
                        database.QueryInt("SELECT count(*) FROM tunings WHERE key = ?1", key));
  if (rows == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("tuning key ", key, " has no row yet; PutTuning comes first"));
}

}  // namespace hone
