// The life of a store's file before queries: made, checked, migrated, or moved aside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/store/sqlite_database.h"

namespace hone {

// What opening did. The daemon logs it; `damage` and `moved_aside_to` loudly.
struct OpenReport {
  std::string path;  // the file in use
  bool created = false;

  std::string damage;          // empty: none was found
  std::string moved_aside_to;  // where the damaged file is now
  int64_t salvaged_rows = 0;   // rows of it that were still sound and were taken over

  int migrated_from = 0;    // schema before; 0: it was up to date or new
  std::string backup_path;  // the file as it was before the migration
  bool older_file = false;  // a newer schema stands under the usual name; this is our own backup

  bool check_complete = true;  // false: the check's time ended before the file did
};

// Opens `path` for writing as a sound database of kStoreSchema. The caller holds the instance lock.
// Missing: made, complete or not at all. Empty, damaged or not a database: moved aside, sound rows
// salvaged. Older schema: copied to BackupPath, then migrated. Newer schema: our own backup if
// there is one, else FAILED_PRECONDITION. A database of another program is left alone:
// FAILED_PRECONDITION. The check of the pages takes at most `check_time_max`.
absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenStoreFile(const std::string& path,
                                                              absl::Duration busy_timeout,
                                                              absl::Duration check_time_max,
                                                              OpenReport& report);

// "hone.db" -> "hone.db.schema1": what a daemon of that schema opens after a downgrade.
std::string BackupPath(const std::string& path, int schema);

// A copy of the database at BackupPath(database.path(), schema), complete or not at all.
absl::Status BackUp(SqliteDatabase& database, int schema);

}  // namespace hone
