// Which artifacts an SQLite store may evict.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/store/artifact_uses.h"
#include "runtime/store/sqlite_database.h"

namespace hone {

// What the write-ahead log of a store bounded to `bytes_max` may take.
int64_t LogBytesMax(int64_t bytes_max);

struct EvictionCandidate {
  std::string sha256;
  int64_t size_bytes = 0;
};

// Those used longest ago, and before `used_before_unix_us`, whose sizes reach `bytes`, at most
// `count_max`, without what is spared: artifacts of winners and pins, and those held. To be called
// in the transaction that deletes them.
absl::StatusOr<std::vector<EvictionCandidate>> EvictionCandidates(SqliteDatabase& database,
                                                                  const ArtifactUses& uses,
                                                                  int64_t bytes, int count_max,
                                                                  int64_t used_before_unix_us);

}  // namespace hone
