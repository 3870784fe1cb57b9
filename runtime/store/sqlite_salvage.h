// What can still be had from a damaged file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/store/sqlite_database.h"

namespace hone {

// Copies every row of the damaged file that can be read and still carries its own proof (bytes
// their hash, records their seal) into `fresh`, in one transaction. Rows already there stay.
// Returns how many were copied: 0 for a file that is no database. Errors are those of writing
// `fresh`.
absl::StatusOr<int64_t> Salvage(const std::string& damaged_path, SqliteDatabase& fresh);

}  // namespace hone
