#include "runtime/store/sqlite_eviction.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

constexpr int64_t kLogBytesMax = int64_t{64} << 20;

// Each selects records that name artifacts to be spared.
constexpr Sql kSparingRecords[] = {
    "SELECT record FROM winners",
    "SELECT record FROM pins WHERE pinned = 1",
};

// Adds the values of a record's lines "artifact_sha256=..." and "variant.artifact_sha256=...".
void AddArtifactsOf(absl::string_view record, absl::flat_hash_set<std::string>& artifacts) {
  for (absl::string_view line : absl::StrSplit(record, '\n')) {
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) continue;
    if (absl::EndsWith(line.substr(0, equals), "artifact_sha256")) {
      artifacts.emplace(line.substr(equals + 1));
    }
  }
}

// Read anew for each transaction: some milliseconds for ten thousand winners, against a table that
// everything which drops a winner would have to keep in step.
absl::StatusOr<absl::flat_hash_set<std::string>> SparedArtifacts(SqliteDatabase& database) {
  absl::flat_hash_set<std::string> spared;
  for (const Sql sql : kSparingRecords) {
    HONE_ASSIGN_OR_RETURN(SqliteQuery query, database.Query(sql));
    while (true) {
      HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) break;
      AddArtifactsOf(query.Text(0), spared);
    }
  }
  return spared;
}

}  // namespace

int64_t LogBytesMax(int64_t bytes_max) { return std::min(bytes_max / 8, kLogBytesMax); }

absl::StatusOr<std::vector<EvictionCandidate>> EvictionCandidates(SqliteDatabase& database,
                                                                  const ArtifactUses& uses,
                                                                  int64_t bytes, int count_max,
                                                                  int64_t used_before_unix_us) {
  HONE_ASSIGN_OR_RETURN(const auto spared, SparedArtifacts(database));
  std::vector<EvictionCandidate> candidates;
  HONE_ASSIGN_OR_RETURN(SqliteQuery query,
                        database.Query("SELECT sha256, size_bytes FROM artifact_uses"
                                       " WHERE used_at_unix_us < ?1"
                                       " ORDER BY used_at_unix_us, rowid",
                                       used_before_unix_us));
  while (bytes > 0 && static_cast<int>(candidates.size()) < count_max) {
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) break;
    EvictionCandidate candidate{.sha256 = query.Text(0), .size_bytes = query.Int(1)};
    if (spared.contains(candidate.sha256) || uses.IsHeld(candidate.sha256)) continue;
    if (uses.IsNoted(candidate.sha256)) continue;  // used just now: its row is behind
    bytes -= candidate.size_bytes;
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace hone
