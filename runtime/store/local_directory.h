// The directory a store lives in: made when missing, on a local disk, writable.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hone {

// The file system's type as statfs gives it (f_type) for an existing path.
using FileSystemTypeFunction = std::function<absl::StatusOr<uint64_t>(const std::string& path)>;
absl::StatusOr<uint64_t> FileSystemType(const std::string& path);

// Makes `directory` and its parents (mode 0700) and checks that files can be made in it.
// FAILED_PRECONDITION names the path and the reason: it cannot be made, is not a directory, is not
// writable, or is on a network file system (by name), where SQLite's locks and shared memory are
// not to be trusted.
absl::Status PrepareLocalDirectory(const std::string& directory,
                                   const FileSystemTypeFunction& file_system_type);

// Makes a finished rename or creation in `directory` survive a power loss.
absl::Status SyncDirectory(const std::string& directory);

}  // namespace hone
