// SQLite's result codes as statuses that say what happened to which file.
#pragma once

#include <string>

#include "absl/status/status.h"

struct sqlite3;

namespace hone {

// RESOURCE_EXHAUSTED: no room (with path and free bytes) or no memory. FAILED_PRECONDITION:
// read-only or not openable. UNAVAILABLE: busy past the bound, or a failing disk. DATA_LOSS:
// damaged, or not a database. INTERNAL: our misuse. `db` may be null; `path` is named in every
// message.
absl::Status SqliteError(int code, sqlite3* db, const std::string& path);

// Bytes that unprivileged writers still get on the file system of `path`; -1 if it cannot be told.
int64_t FreeBytes(const std::string& path);

}  // namespace hone
