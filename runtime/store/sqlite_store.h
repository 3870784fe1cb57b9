// KernelStore in one SQLite file on a local disk, with one owner.
//
// One connection writes, another reads: a read never waits for a commit's sync. Every commit is
// synced before it is answered, so what was acknowledged survives a kill and a power loss; only
// counts of misses may be lost with the power. A row or binary that fails its hash is DATA_LOSS
// once and is then gone, so that the next call finds the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runtime/store/instance_lock.h"
#include "runtime/store/kernel_store.h"
#include "runtime/store/local_directory.h"
#include "runtime/store/sqlite_connection.h"
#include "runtime/store/sqlite_file.h"

namespace hone {

struct SqliteStoreOptions {
  std::string path;  // ".../hone.db"; its directory is made when missing
  // How long a call waits, in all, for other threads and other processes.
  absl::Duration busy_wait_max = absl::Seconds(5);
  // How long opening may spend on checking the pages: about 1 GB of cached file.
  absl::Duration check_time_max = absl::Milliseconds(500);
  int64_t log_bytes_max = 256 << 10;  // of one log
  int64_t logs_bytes_max = 64 << 20;  // of all logs
  int64_t misses_max = 10'000;        // rows
  // statfs; replaced in tests to stand on file systems that a test cannot mount.
  FileSystemTypeFunction file_system_type = FileSystemType;
};

// Thread-safe.
class SqliteStore : public KernelStore {
 public:
  // FAILED_PRECONDITION, naming path and reason: another owner (with its pid), a network file
  // system, a path that cannot be made or written, a newer schema, another program's database.
  // Damage is not an error: see OpenReport.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(SqliteStoreOptions options);
  ~SqliteStore() override;

  const OpenReport& open_report() const { return open_report_; }

  absl::Status PutArtifact(const Key& key, const Artifact& artifact) override;
  absl::StatusOr<std::optional<Artifact>> GetArtifact(const std::string& key_id) override;
  absl::StatusOr<std::optional<Artifact>> GetArtifactBySha256(const std::string& sha256) override;
  absl::Status QuarantineArtifact(const std::string& sha256) override;
  absl::StatusOr<std::string> PutLog(const std::string& log, int64_t truncated_bytes) override;
  absl::StatusOr<std::optional<std::pair<std::string, int64_t>>> GetLog(
      const std::string& log_id) override;

  absl::Status PutTuning(const TuningRecord& record) override;
  absl::Status PutMeasurement(const std::string& tuning_key,
                              const Measurement& measurement) override;
  absl::StatusOr<std::vector<Measurement>> GetMeasurements(const std::string& tuning_key) override;
  absl::StatusOr<InvalidationCount> InvalidateMeasurements(const InvalidationFilter& filter,
                                                           const std::string& why,
                                                           bool dry_run) override;
  absl::StatusOr<std::optional<TuningRecord>> GetTuning(const std::string& tuning_key) override;
  absl::StatusOr<std::vector<std::string>> FindTunings(const std::string& prefix,
                                                       int limit) override;
  absl::StatusOr<TuningPage> ListTunings(const std::string& template_name, int page_size,
                                         const std::string& page_token) override;
  absl::StatusOr<std::vector<TuningRecord>> TuningsOf(const std::string& kernel_digest,
                                                      const std::string& device_key) override;
  absl::StatusOr<uint64_t> PutWinner(const Winner& winner) override;
  absl::StatusOr<std::optional<Winner>> GetWinner(const std::string& tuning_key,
                                                  const std::string& template_digest,
                                                  Numerics numerics) override;
  absl::StatusOr<uint64_t> PutPin(const WinnerPin& pin) override;
  absl::StatusOr<std::optional<WinnerPin>> GetPin(const std::string& tuning_key) override;

  absl::Status PutCeilings(const DeviceFingerprint& device,
                           const DeviceCeilings& ceilings) override;
  absl::StatusOr<std::optional<DeviceCeilings>> GetCeilings(const std::string& device_key) override;

  absl::Status PutTemplate(const StoredTemplate& stored) override;
  absl::StatusOr<std::vector<StoredTemplate>> ListTemplates() override;
  absl::Status PutHeaderSet(const std::string& digest, const std::string& name,
                            const std::vector<SourceFile>& files) override;
  absl::StatusOr<std::optional<std::vector<SourceFile>>> GetHeaderSet(
      const std::string& digest) override;
  absl::StatusOr<std::optional<std::string>> FindHeaderSet(
      const std::string& name_or_digest) override;
  absl::StatusOr<std::vector<StoredHeaderSet>> ListHeaderSets() override;
  absl::Status RecordMiss(const Miss& miss) override;
  absl::StatusOr<std::vector<Miss>> ListMisses(int limit) override;
  // The file and its write-ahead log.
  absl::StatusOr<int64_t> SizeBytes() override;

 private:
  // A turn on the writing connection with a transaction; rolls back without Commit.
  struct Write {
    SqliteConnection::Turn turn;
    SqliteTransaction transaction;
    SqliteDatabase& database() const { return turn.database(); }
    absl::Status Commit() { return transaction.Commit(); }
  };

  SqliteStore(SqliteStoreOptions options, std::unique_ptr<InstanceLock> lock,
              OpenReport open_report, std::unique_ptr<SqliteDatabase> writer,
              std::unique_ptr<SqliteDatabase> reader);

  absl::StatusOr<Write> BeginWrite();
  // Deletes one damaged row. Best effort: the caller is told of the damage either way.
  template <typename... Keys>
  void DropRow(Sql sql, const Keys&... keys) {
    absl::StatusOr<Write> write = BeginWrite();
    if (!write.ok() || !write->database().Run(sql, keys...).ok()) return;
    write->Commit().IgnoreError();
  }
  absl::Status Damaged(absl::string_view what, absl::string_view key) const;
  absl::StatusOr<std::vector<TuningRecord>> ReadTunings(SqliteQuery query);

  const SqliteStoreOptions options_;
  const std::unique_ptr<InstanceLock> lock_;  // outlives the connections
  const OpenReport open_report_;
  SqliteConnection writer_;
  SqliteConnection reader_;
};

}  // namespace hone
