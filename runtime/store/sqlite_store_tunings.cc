// Tunings, measurements and winners.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/store/sqlite_schema.h"
#include "runtime/store/sqlite_store.h"
#include "runtime/store/stored_rows.h"

namespace hone {
namespace {

bool SameVariants(const Winner& a, const Winner& b) {
  return std::equal(a.variants.begin(), a.variants.end(), b.variants.begin(), b.variants.end(),
                    [](const WinnerVariant& x, const WinnerVariant& y) {
                      return x.config == y.config && x.artifact_sha256 == y.artifact_sha256;
                    });
}

// Rows of schema 1, which had no numerics, keep their seals.
std::string WinnerKey(const std::string& tuning_key, const std::string& template_digest,
                      Numerics numerics) {
  return absl::StrCat(tuning_key, " ", template_digest,
                      numerics == Numerics::kWithinTolerance ? "" : " same_bits");
}

// Where the page before ended: "created_at_unix_ms:key".
struct PagePosition {
  int64_t created_at_unix_ms = INT64_MAX;
  std::string key;
};

absl::StatusOr<PagePosition> ParseToken(const std::string& token) {
  PagePosition position;
  if (token.empty()) return position;
  const std::vector<std::string> parts = absl::StrSplit(token, ':');
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &position.created_at_unix_ms)) {
    return absl::InvalidArgumentError(absl::StrCat("page_token '", token, "' is not ours"));
  }
  position.key = parts[1];
  return position;
}

}  // namespace

absl::Status SqliteStore::PutTuning(const TuningRecord& tuning) {
  const std::string record = EncodeTuning(tuning);
  HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
  HONE_RETURN_IF_ERROR(write.database().Run(
      "INSERT OR IGNORE INTO tunings VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", tuning.key,
      tuning.created_at_unix_ms, tuning.template_name, tuning.kernel_digest, tuning.device.Key(),
      record, Seal(tuning.key, record)));
  return write.Commit();
}

absl::Status SqliteStore::PutMeasurements(const std::string& tuning_key,
                                          const std::vector<Measurement>& measurements) {
  HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
  SqliteDatabase& database = write.database();
  HONE_RETURN_IF_ERROR(RequireTuning(database, tuning_key));
  for (const Measurement& measurement : measurements) {
    const std::string record = EncodeMeasurement(measurement);
    const std::string config = measurement.config.ToString();
    const std::string seal = Seal(MeasurementKey(tuning_key, config), record);
    const int64_t rejection =
        measurement.rejection.has_value() ? static_cast<int64_t>(measurement.rejection->kind) : 0;
    HONE_RETURN_IF_ERROR(database.Run(
        "INSERT INTO measurements"
        " (tuning_key, config, rejection, median_ns, measured_at_unix_ms, record, seal)"
        " VALUES (?1, ?2, nullif(?3, 0), ?4, ?5, ?6, ?7)"
        " ON CONFLICT (tuning_key, config) DO UPDATE SET"
        " rejection = excluded.rejection, median_ns = excluded.median_ns,"
        " measured_at_unix_ms = excluded.measured_at_unix_ms, record = excluded.record,"
        " seal = excluded.seal",
        tuning_key, config, rejection, measurement.median_ns, measurement.measured_at_unix_ms,
        record, seal));
  }
  return write.Commit();
}

absl::StatusOr<std::vector<Measurement>> SqliteStore::GetMeasurements(
    const std::string& tuning_key) {
  std::vector<Measurement> measurements;
  std::vector<std::string> damaged;
  {
    HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
    HONE_ASSIGN_OR_RETURN(SqliteQuery query,
                          turn.database().Query("SELECT config, record, seal FROM measurements"
                                                " WHERE tuning_key = ?1 ORDER BY sequence",
                                                tuning_key));
    while (true) {
      HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) break;
      const std::string config = query.Text(0);
      if (Seal(MeasurementKey(tuning_key, config), query.Text(1)) != query.Text(2)) {
        damaged.push_back(config);
        continue;
      }
      HONE_ASSIGN_OR_RETURN(Measurement measurement, DecodeMeasurement(query.Text(1)));
      measurements.push_back(std::move(measurement));
    }
  }
  if (damaged.empty()) return measurements;
  for (const std::string& config : damaged) {
    DropRow("DELETE FROM measurements WHERE tuning_key = ?1 AND config = ?2", tuning_key, config);
  }
  return Damaged("measurement", MeasurementKey(tuning_key, damaged.front()));
}

// Rows of key, record, seal, measured, rejected, last measurement's time.
absl::StatusOr<std::vector<TuningRecord>> SqliteStore::ReadTunings(SqliteQuery query) {
  std::vector<TuningRecord> tunings;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return tunings;
    if (Seal(query.Text(0), query.Text(1)) != query.Text(2)) {
      const std::string key = query.Text(0);
      DropRow("DELETE FROM tunings WHERE key = ?1", key);
      return Damaged("tuning", key);
    }
    HONE_ASSIGN_OR_RETURN(TuningRecord tuning, DecodeTuning(query.Text(1)));
    tuning.measured = query.Int(3);
    tuning.rejected = query.Int(4);
    tuning.updated_at_unix_ms = std::max(tuning.created_at_unix_ms, query.Int(5));
    tunings.push_back(std::move(tuning));
  }
}

absl::StatusOr<std::optional<TuningRecord>> SqliteStore::GetTuning(const std::string& tuning_key) {
  HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
  HONE_ASSIGN_OR_RETURN(
      SqliteQuery query,
      turn.database().Query("SELECT key, record, seal, measured, rejected, last_measured_at_unix_ms"
                            " FROM tuning_summaries WHERE key = ?1",
                            tuning_key));
  HONE_ASSIGN_OR_RETURN(std::vector<TuningRecord> tunings, ReadTunings(std::move(query)));
  if (tunings.empty()) return std::nullopt;
  return std::move(tunings.front());
}

absl::StatusOr<std::vector<std::string>> SqliteStore::FindTunings(const std::string& prefix,
                                                                  int limit) {
  HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
  HONE_ASSIGN_OR_RETURN(
      SqliteQuery query,
      turn.database().Query("SELECT key FROM tunings WHERE key >= ?1 ORDER BY key LIMIT ?2", prefix,
                            std::max(0, limit)));
  std::vector<std::string> keys;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row || !absl::StartsWith(query.Text(0), prefix)) return keys;
    keys.push_back(query.Text(0));
  }
}

absl::StatusOr<TuningPage> SqliteStore::ListTunings(const std::string& template_name, int page_size,
                                                    const std::string& page_token) {
  if (page_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("page_size is ", page_size, ", want 1 or more"));
  }
  HONE_ASSIGN_OR_RETURN(const PagePosition after, ParseToken(page_token));
  TuningPage page;
  {
    HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery query,
        turn.database().Query(
            "SELECT key, record, seal, measured, rejected, last_measured_at_unix_ms"
            " FROM tuning_summaries"
            " WHERE (?1 = '' OR template_name = ?1)"
            " AND (created_at_unix_ms < ?2 OR (created_at_unix_ms = ?2 AND key > ?3))"
            " ORDER BY created_at_unix_ms DESC, key LIMIT ?4",
            template_name, after.created_at_unix_ms, after.key,
            static_cast<int64_t>(page_size) + 1));
    HONE_ASSIGN_OR_RETURN(page.records, ReadTunings(std::move(query)));
  }
  if (page.records.size() > static_cast<size_t>(page_size)) {
    page.records.pop_back();
    page.next_page_token =
        absl::StrCat(page.records.back().created_at_unix_ms, ":", page.records.back().key);
  }
  return page;
}

absl::StatusOr<std::vector<TuningRecord>> SqliteStore::TuningsOf(const std::string& kernel_digest,
                                                                 const std::string& device_key) {
  HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
  HONE_ASSIGN_OR_RETURN(
      SqliteQuery query,
      turn.database().Query("SELECT key, record, seal, measured, rejected, last_measured_at_unix_ms"
                            " FROM tuning_summaries"
                            " WHERE kernel_digest = ?1 AND (?2 = '' OR device_key = ?2)"
                            " AND EXISTS (SELECT 1 FROM measurements"
                            "  WHERE tuning_key = key AND rejection IS NULL)"
                            " ORDER BY created_at_unix_ms DESC, key",
                            kernel_digest, device_key));
  return ReadTunings(std::move(query));
}

absl::StatusOr<uint64_t> SqliteStore::PutWinner(const Winner& winner) {
  HONE_ASSIGN_OR_RETURN(Write write, BeginWrite());
  SqliteDatabase& database = write.database();
  HONE_RETURN_IF_ERROR(RequireTuning(database, winner.tuning_key));
  Winner stored = winner;
  stored.generation = 0;
  {
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery query,
        database.Query("SELECT record FROM winners"
                       " WHERE tuning_key = ?1 AND template_digest = ?2 AND numerics = ?3",
                       winner.tuning_key, winner.template_digest,
                       static_cast<int64_t>(winner.numerics)));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    // A row that no longer parses counts as changed.
    const absl::StatusOr<Winner> before =
        row ? DecodeWinner(query.Text(0)) : absl::NotFoundError("no winner yet");
    if (before.ok() && SameVariants(*before, winner)) stored.generation = before->generation;
  }
  if (stored.generation == 0) {
    HONE_ASSIGN_OR_RETURN(stored.generation, NextGeneration(database));
  }
  const std::string record = EncodeWinner(stored);
  HONE_RETURN_IF_ERROR(database.Run(
      "INSERT OR REPLACE INTO winners VALUES (?1, ?2, ?3, ?4, ?5, ?6)", stored.tuning_key,
      stored.template_digest, static_cast<int64_t>(stored.generation), record,
      Seal(WinnerKey(stored.tuning_key, stored.template_digest, stored.numerics), record),
      static_cast<int64_t>(stored.numerics)));
  HONE_RETURN_IF_ERROR(write.Commit());
  return stored.generation;
}

absl::StatusOr<std::optional<Winner>> SqliteStore::GetWinner(const std::string& tuning_key,
                                                             const std::string& template_digest,
                                                             Numerics numerics) {
  std::string digest, record, seal;
  {
    HONE_ASSIGN_OR_RETURN(const SqliteConnection::Turn turn, reader_.TakeTurn());
    HONE_ASSIGN_OR_RETURN(
        SqliteQuery query,
        turn.database().Query("SELECT template_digest, record, seal FROM winners"
                              " WHERE tuning_key = ?1 AND (?2 = '' OR template_digest = ?2)"
                              " AND numerics = ?3 ORDER BY generation DESC LIMIT 1",
                              tuning_key, template_digest, static_cast<int64_t>(numerics)));
    HONE_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return std::nullopt;
    digest = query.Text(0);
    record = query.Text(1);
    seal = query.Text(2);
  }
  const std::string key = WinnerKey(tuning_key, digest, numerics);
  if (Seal(key, record) != seal) {
    DropRow("DELETE FROM winners WHERE tuning_key = ?1 AND template_digest = ?2 AND numerics = ?3",
            tuning_key, digest, static_cast<int64_t>(numerics));
    return Damaged("winner", key);
  }
  return DecodeWinner(record);
}

}  // namespace hone
