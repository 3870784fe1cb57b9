#include "runtime/store/sqlite_salvage.h"

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/sha256.h"
#include "runtime/store/sqlite_schema.h"

namespace hone {
namespace {

// Hands each readable row to `copy`, from the front and, when the front ends at a damaged page,
// from the back. Only errors of `copy` are returned.
absl::Status ForEachReadable(SqliteDatabase& damaged, Sql forwards, Sql backwards,
                             absl::FunctionRef<absl::Status(const SqliteQuery&)> copy) {
  for (const Sql sql : {forwards, backwards}) {
    absl::StatusOr<SqliteQuery> query = damaged.Query(sql);
    if (!query.ok()) return absl::OkStatus();
    while (true) {
      const absl::StatusOr<bool> row = query->Step();
      if (!row.ok()) break;
      if (!*row) return absl::OkStatus();
      HONE_RETURN_IF_ERROR(copy(*query));
    }
  }
  return absl::OkStatus();
}

// `forwards` and `backwards` select the key, record and seal first.
bool IsSealed(const SqliteQuery& row) { return Seal(row.Text(0), row.Text(1)) == row.Text(2); }

class Salvager {
 public:
  Salvager(SqliteDatabase& damaged, SqliteDatabase& fresh) : damaged_(damaged), fresh_(fresh) {}

  absl::Status CopyAll() {
    HONE_RETURN_IF_ERROR(CopyArtifacts());
    HONE_RETURN_IF_ERROR(CopyArtifactKeys());
    HONE_RETURN_IF_ERROR(CopyTunings());
    HONE_RETURN_IF_ERROR(CopyMeasurements());
    HONE_RETURN_IF_ERROR(CopyWinners());
    HONE_RETURN_IF_ERROR(CopyWinnersOfSchema1());
    HONE_RETURN_IF_ERROR(CopyPins());
    HONE_RETURN_IF_ERROR(CopyTemplates());
    HONE_RETURN_IF_ERROR(CopyHeaderSets());
    return CopyDevices();
  }

  int64_t rows() const { return rows_; }

 private:
  template <typename... Values>
  absl::Status Insert(Sql sql, const Values&... values) {
    HONE_RETURN_IF_ERROR(fresh_.Run(sql, values...));
    rows_ += fresh_.changes();
    return absl::OkStatus();
  }

  absl::Status CopyArtifacts() {
    return ForEachReadable(
        damaged_, "SELECT sha256, stored_at_unix_ms, bytes FROM artifacts ORDER BY rowid",
        "SELECT sha256, stored_at_unix_ms, bytes FROM artifacts ORDER BY rowid DESC",
        [&](const SqliteQuery& row) {
          const std::string bytes = row.Text(2);
          if (Sha256Hex(bytes) != row.Text(0)) return absl::OkStatus();
          return Insert("INSERT OR IGNORE INTO artifacts VALUES (?1, ?2, ?3)", row.Text(0),
                        row.Int(1), Blob{bytes});
        });
  }

  absl::Status CopyArtifactKeys() {
    return ForEachReadable(
        damaged_, "SELECT key, record, seal, sequence, sha256 FROM artifact_keys ORDER BY sequence",
        "SELECT key, record, seal, sequence, sha256 FROM artifact_keys ORDER BY sequence DESC",
        [&](const SqliteQuery& row) {
          if (!IsSealed(row)) return absl::OkStatus();
          return Insert(
              "INSERT OR IGNORE INTO artifact_keys (sequence, key, sha256, record, seal)"
              " SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS"
              " (SELECT 1 FROM artifacts WHERE sha256 = ?3)",
              row.Int(3), row.Text(0), row.Text(4), row.Text(1), row.Text(2));
        });
  }

  absl::Status CopyTunings() {
    return ForEachReadable(
        damaged_,
        "SELECT key, record, seal, created_at_unix_ms, template_name, kernel_digest, device_key"
        " FROM tunings ORDER BY rowid",
        "SELECT key, record, seal, created_at_unix_ms, template_name, kernel_digest, device_key"
        " FROM tunings ORDER BY rowid DESC",
        [&](const SqliteQuery& row) {
          if (!IsSealed(row)) return absl::OkStatus();
          return Insert("INSERT OR IGNORE INTO tunings VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                        row.Text(0), row.Int(3), row.Text(4), row.Text(5), row.Text(6), row.Text(1),
                        row.Text(2));
        });
  }

  absl::Status CopyMeasurements() {
    return ForEachReadable(
        damaged_,
        "SELECT tuning_key || ' ' || config, record, seal, sequence, tuning_key, config, rejection,"
        " median_ns, measured_at_unix_ms FROM measurements ORDER BY sequence",
        "SELECT tuning_key || ' ' || config, record, seal, sequence, tuning_key, config, rejection,"
        " median_ns, measured_at_unix_ms FROM measurements ORDER BY sequence DESC",
        [&](const SqliteQuery& row) {
          if (!IsSealed(row)) return absl::OkStatus();
          return Insert(
              "INSERT OR IGNORE INTO measurements"
              " VALUES (?1, ?2, ?3, nullif(?4, 0), ?5, ?6, ?7, ?8)",
              row.Int(3), row.Text(4), row.Text(5), row.Int(6), row.Double(7), row.Int(8),
              row.Text(1), row.Text(2));
        });
  }

  // The generation counter ends past every winner taken over, so that generations still only grow.
  absl::Status CopyWinners() {
    return ForEachReadable(
        damaged_,
        "SELECT tuning_key || ' ' || template_digest || iif(numerics = 1, ' same_bits', ''),"
        " record, seal, tuning_key, template_digest, generation, numerics"
        " FROM winners ORDER BY rowid",
        "SELECT tuning_key || ' ' || template_digest || iif(numerics = 1, ' same_bits', ''),"
        " record, seal, tuning_key, template_digest, generation, numerics"
        " FROM winners ORDER BY rowid DESC",
        [&](const SqliteQuery& row) { return InsertWinner(row, row.Int(6)); });
  }

  // Adds nothing where the file has the newer schema: its rows are taken over already.
  absl::Status CopyWinnersOfSchema1() {
    return ForEachReadable(
        damaged_,
        "SELECT tuning_key || ' ' || template_digest, record, seal, tuning_key, template_digest,"
        " generation FROM winners ORDER BY rowid",
        "SELECT tuning_key || ' ' || template_digest, record, seal, tuning_key, template_digest,"
        " generation FROM winners ORDER BY rowid DESC",
        [&](const SqliteQuery& row) { return InsertWinner(row, 0); });
  }

  absl::Status InsertWinner(const SqliteQuery& row, int64_t numerics) {
    if (!IsSealed(row)) return absl::OkStatus();
    HONE_RETURN_IF_ERROR(KeepGeneration(row.Int(5)));
    return Insert("INSERT OR IGNORE INTO winners VALUES (?1, ?2, ?3, ?4, ?5, ?6)", row.Text(3),
                  row.Text(4), row.Int(5), row.Text(1), row.Text(2), numerics);
  }

  absl::Status KeepGeneration(int64_t generation) {
    return fresh_.Run("UPDATE counters SET value = max(value, ?1) WHERE name = 'generation'",
                      generation);
  }

  absl::Status CopyPins() {
    return ForEachReadable(
        damaged_,
        "SELECT tuning_key, record, seal, generation, pinned, config, artifact_sha256 FROM pins"
        " ORDER BY rowid",
        "SELECT tuning_key, record, seal, generation, pinned, config, artifact_sha256 FROM pins"
        " ORDER BY rowid DESC",
        [&](const SqliteQuery& row) -> absl::Status {
          if (!IsSealed(row)) return absl::OkStatus();
          HONE_RETURN_IF_ERROR(KeepGeneration(row.Int(3)));
          return Insert("INSERT OR IGNORE INTO pins VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                        row.Text(0), row.Int(3), row.Int(4), row.Text(5), row.Text(6), row.Text(1),
                        row.Text(2));
        });
  }

  absl::Status CopyTemplates() {
    return ForEachReadable(
        damaged_, "SELECT digest, record, seal, sequence, name FROM templates ORDER BY sequence",
        "SELECT digest, record, seal, sequence, name FROM templates ORDER BY sequence DESC",
        [&](const SqliteQuery& row) {
          if (!IsSealed(row)) return absl::OkStatus();
          return Insert("INSERT OR IGNORE INTO templates VALUES (?1, ?2, ?3, ?4, ?5)", row.Int(3),
                        row.Text(0), row.Text(4), row.Text(1), row.Text(2));
        });
  }

  absl::Status CopyHeaderSets() {
    return ForEachReadable(
        damaged_, "SELECT digest, record, seal, sequence, name FROM header_sets ORDER BY sequence",
        "SELECT digest, record, seal, sequence, name FROM header_sets ORDER BY sequence DESC",
        [&](const SqliteQuery& row) {
          if (!IsSealed(row)) return absl::OkStatus();
          return Insert("INSERT OR IGNORE INTO header_sets VALUES (?1, ?2, ?3, ?4, ?5)", row.Int(3),
                        row.Text(0), row.Text(4), row.Text(1), row.Text(2));
        });
  }

  absl::Status CopyDevices() {
    return ForEachReadable(
        damaged_, "SELECT key, record, seal, measured_at_unix_ms FROM devices ORDER BY rowid",
        "SELECT key, record, seal, measured_at_unix_ms FROM devices ORDER BY rowid DESC",
        [&](const SqliteQuery& row) {
          if (!IsSealed(row)) return absl::OkStatus();
          return Insert("INSERT OR IGNORE INTO devices VALUES (?1, ?2, ?3, ?4)", row.Text(0),
                        row.Int(3), row.Text(1), row.Text(2));
        });
  }

  SqliteDatabase& damaged_;
  SqliteDatabase& fresh_;
  int64_t rows_ = 0;
};

}  // namespace

absl::StatusOr<int64_t> Salvage(const std::string& damaged_path, SqliteDatabase& fresh) {
  const absl::StatusOr<std::unique_ptr<SqliteDatabase>> damaged =
      SqliteDatabase::Open(damaged_path, SqliteDatabase::Mode::kReadWrite, absl::ZeroDuration());
  if (!damaged.ok()) return 0;
  HONE_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(&fresh));
  Salvager salvager(**damaged, fresh);
  HONE_RETURN_IF_ERROR(salvager.CopyAll());
  HONE_RETURN_IF_ERROR(transaction.Commit());
  return salvager.rows();
}

}  // namespace hone
