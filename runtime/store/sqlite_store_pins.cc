// Pins, and measurements that are no longer trusted.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/store/sqlite_schema.h"
#include "runtime/store/sqlite_store.h"
#include "runtime/store/stored_rows.h"

namespace hone {
namespace {

// A measurement's row, with its record as it should become.
struct Change {
  std::string tuning_key, config, record;
};

absl::StatusOr<std::map<std::string, std::string>> PinnedConfigs(SqliteDatabase& database) {
  HONE_ASSIGN_OR_RETURN(SqliteQuery query,
                        database.Query("SELECT tuning_key, config FROM pins WHERE pinned = 1"));
  std::map<std::string, std::string> pinned;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return pinned;
    pinned[query.Text(0)] = query.Text(1);
  }
}

// A damaged row is left to whoever reads it next: it is told there.
absl::StatusOr<std::vector<Change>> ChangesFor(SqliteDatabase& database,
                                               const InvalidationFilter& filter,
                                               const std::string& why, InvalidationCount& count) {
  HONE_ASSIGN_OR_RETURN(const auto pinned, PinnedConfigs(database));
  HONE_ASSIGN_OR_RETURN(
      SqliteQuery query,
      database.Query("SELECT m.tuning_key, m.config, m.record, m.seal"
                     " FROM measurements m JOIN tunings t ON t.key = m.tuning_key"
                     " WHERE (?1 = '' OR t.template_name = ?1) AND (?2 = '' OR t.device_key = ?2)",
                     filter.template_name, filter.device_key));
  std::vector<Change> changes;
  std::set<std::string> tunings;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) break;
    Change change{query.Text(0), query.Text(1), query.Text(2)};
    if (Seal(MeasurementKey(change.tuning_key, change.config), change.record) != query.Text(3)) {
      continue;
    }
    HONE_ASSIGN_OR_RETURN(Measurement measurement, DecodeMeasurement(change.record));
    const bool excluded =
        measurement.rejection && measurement.rejection->kind == RejectionKind::kConstraint;
    if (excluded || !filter.Matches(measurement) || !measurement.invalidated.empty()) continue;
    const auto pin = pinned.find(change.tuning_key);
    if (pin != pinned.end() && pin->second == change.config) {
      ++count.pins_spared;
      continue;
    }
    tunings.insert(change.tuning_key);
    ++count.measurements;
    measurement.invalidated = why;
    change.record = EncodeMeasurement(measurement);
    changes.push_back(std::move(change));
  }
  count.tunings = static_cast<int64_t>(tunings.size());
  return changes;
}

}  // namespace

absl::StatusOr<InvalidationCount> SqliteStore::InvalidateMeasurements(
    const InvalidationFilter& filter, const std::string& why, bool dry_run) {
  InvalidationCount count;
  HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
  SqliteDatabase& database = write.database();
  HONE_ASSIGN_OR_RETURN(const std::vector<Change> changes,
                        ChangesFor(database, filter, why, count));
  if (dry_run) return count;
  for (const Change& change : changes) {
    HONE_RETURN_IF_ERROR(database.Run(
        "UPDATE measurements SET record = ?3, seal = ?4 WHERE tuning_key = ?1 AND config = ?2",
        change.tuning_key, change.config, change.record,
        Seal(MeasurementKey(change.tuning_key, change.config), change.record)));
  }
  HONE_RETURN_IF_ERROR(write.Commit());
  return count;
}

absl::StatusOr<uint64_t> SqliteStore::PutPin(const WinnerPin& pin) {
  HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
  SqliteDatabase& database = write.database();
  HONE_RETURN_IF_ERROR(RequireTuning(database, pin.tuning_key));
  WinnerPin stored = pin;
  stored.generation = 0;
  {
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery query,
        database.Query("SELECT record FROM pins WHERE tuning_key = ?1", pin.tuning_key));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (row) {
      // A row that no longer parses counts as changed.
      const absl::StatusOr<WinnerPin> before = DecodePin(query.Text(0));
      if (before.ok() && before->config == pin.config) stored.generation = before->generation;
    }
  }
  if (stored.generation == 0) {
    HONE_ASSIGN_OR_RETURN(stored.generation, NextGeneration(database));
  }
  const std::string record = EncodePin(stored);
  HONE_RETURN_IF_ERROR(
      database.Run("INSERT OR REPLACE INTO pins VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                   stored.tuning_key, static_cast<int64_t>(stored.generation),
                   stored.config ? 1 : 0, stored.config ? stored.config->ToString() : std::string(),
                   stored.artifact_sha256, record, Seal(stored.tuning_key, record)));
  HONE_RETURN_IF_ERROR(write.Commit());
  return stored.generation;
}

absl::StatusOr<std::optional<WinnerPin>> SqliteStore::GetPin(const std::string& tuning_key) {
  std::string record, seal;
  {
    HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery query,
        turn.database().Query("SELECT record, seal FROM pins WHERE tuning_key = ?1", tuning_key));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return std::nullopt;
    record = query.Text(0);
    seal = query.Text(1);
  }
  if (Seal(tuning_key, record) != seal) {
    DropRow("DELETE FROM pins WHERE tuning_key = ?1", tuning_key);
    return Damaged("pin", tuning_key);
  }
  HONE_ASSIGN_OR_RETURN(WinnerPin pin, DecodePin(record));
  return pin;
}

}  // namespace hone
