// KernelStore in one SQLite file on a local disk, with one owner.
//
// One connection writes, another reads: a read never waits for a commit's sync. Every commit is
// synced before it is answered, so what was acknowledged survives a kill and a power loss; only
// counts of misses and times of use may be lost with the power. A row or binary that fails its hash
// is DATA_LOSS once and is then gone, so that the next call finds the rest.
//
// A store with a bound is kept below it by a thread of its own, which begins a little before the
// bound is reached; storing an artifact waits for it only when it has not kept up. Nothing else
// does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/mutex.h"
#include "runtime/store/artifact_uses.h"
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
  // What the file and its write-ahead log may take together; a single artifact beyond it for a
  // moment. 0: no bound. An eighth of it, at most 64 MiB, is the log's.
  int64_t bytes_max = 0;
  // How often times of use are written.
  absl::Duration uses_written_every = absl::Seconds(10);
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
  absl::Status PutMeasurements(const std::string& tuning_key,
                               const std::vector<Measurement>& measurements) override;
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
  absl::Status RecordMisses(const std::vector<Miss>& misses) override;
  absl::StatusOr<std::vector<Miss>> ListMisses(const MissFilter& filter) override;
  // The file and its write-ahead log.
  absl::StatusOr<int64_t> SizeBytes() override;
  StoreRoom Room() override;
  void NoteUse(const std::string& sha256) override { uses_->Note(sha256); }
  std::shared_ptr<const void> Hold(const std::string& sha256) override {
    return uses_->Hold(sha256);
  }

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

  // ---- sqlite_store_eviction.cc
  struct Space {
    int64_t file_bytes = 0;
    int64_t free_bytes = 0;  // of these, in pages that nothing uses
    int64_t used_bytes() const { return file_bytes - free_bytes; }
  };
  // BeginWrite for what makes the file larger by about `bytes`: within the bound, waiting for
  // evictions if need be.
  absl::StatusOr<Write> BeginWriteOf(int64_t bytes);
  absl::StatusOr<bool> HasBytes(const std::string& sha256);
  static absl::StatusOr<Space> ReadSpace(SqliteDatabase& database);
  int64_t file_bytes_max() const { return options_.bytes_max - log_bytes_max(); }
  int64_t log_bytes_max() const;
  // Asks the trimmer to make room for `bytes` that somebody waits to store, or, if 0, ahead of
  // need; returns a ticket for AwaitTrim.
  int64_t RequestTrim(int64_t bytes);
  bool AwaitTrim(int64_t ticket, absl::Time deadline);
  void TrimLoop();
  void Trim(int64_t room_bytes);
  // Evicts what was used longest ago, and before `used_before`, at most `bytes` and never more than
  // one transaction should; returns how much that was.
  absl::StatusOr<int64_t> EvictSome(int64_t bytes, absl::Time used_before);
  int64_t LogBytes() const;  // of the write-ahead log's file
  // Empties the log when `bytes` more would make it longer than its share: while there are readers,
  // commits do not begin it anew by themselves.
  absl::Status KeepLogShort(int64_t bytes);
  absl::Status WriteUses();
  // Gives free pages back to the file system.
  absl::Status ReturnSpace();

  const SqliteStoreOptions options_;
  const std::unique_ptr<InstanceLock> lock_;  // outlives the connections
  const OpenReport open_report_;
  SqliteConnection writer_;
  SqliteConnection reader_;

  const std::unique_ptr<ArtifactUses> uses_ = std::make_unique<ArtifactUses>();
  std::atomic<int64_t> evictions_{0}, evicted_bytes_{0};
  std::atomic<bool> exhausted_{false};
  Mutex trim_mutex_;
  int64_t trims_requested_ ABSL_GUARDED_BY(trim_mutex_) = 0;
  int64_t trims_done_ ABSL_GUARDED_BY(trim_mutex_) = 0;
  int64_t room_wanted_bytes_ ABSL_GUARDED_BY(trim_mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(trim_mutex_) = false;
  std::thread trimmer_;
};

}  // namespace hone
