// The tables of SqliteStore and how older files become the present schema.
//
// Rows hold what queries need in columns and everything in `record` (record.h), with `seal`: a hash
// of the row's key and record, so that a damaged row is known as such when it is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/store/sqlite_database.h"

namespace hone {

// "hone" in ASCII: marks the file as ours (SQLite's application_id).
inline constexpr int64_t kApplicationId = 0x686f6e65;
// Bump with every new migration; keep a golden file of the schema before.
inline constexpr int kStoreSchema = 2;

// Brings a database from the schema before to `to_schema`.
struct Migration {
  int to_schema;
  Sql script;
};

// All of them, oldest first; the first makes an empty file a database of schema 1.
const std::vector<Migration>& Migrations();

struct SchemaState {
  int64_t application_id = 0;
  int schema = 0;  // 0: an empty database
};
absl::StatusOr<SchemaState> ReadSchema(SqliteDatabase& database);

// Applies every migration past the database's schema, in one transaction: afterwards the file has
// the last one's schema or is unchanged.
absl::Status Migrate(SqliteDatabase& database, const std::vector<Migration>& migrations,
                     int64_t now_unix_ms);

// Hash of a row's key and record.
std::string Seal(absl::string_view key, absl::string_view record);

// The key that a measurement's seal covers.
std::string MeasurementKey(absl::string_view tuning_key, absl::string_view config);

// The next generation of the whole store. REQUIRES: a transaction.
absl::StatusOr<uint64_t> NextGeneration(SqliteDatabase& database);

// FAILED_PRECONDITION if the tuning key has no row.
absl::Status RequireTuning(SqliteDatabase& database, const std::string& key);

}  // namespace hone
