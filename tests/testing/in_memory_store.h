// A working KernelStore in memory, run through the same contract suite as SqliteStore, that can be
// told to fail.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/store/artifact_uses.h"
#include "runtime/store/kernel_store.h"

namespace hone {

// Thread-safe.
class InMemoryStore : public KernelStore {
 public:
  // How often each group of methods was called, failures included.
  struct Counters {
    int64_t artifact_puts = 0;
    int64_t artifact_gets = 0;
    int64_t log_puts = 0;
    int64_t tuning_puts = 0;
    int64_t measurement_puts = 0;
    int64_t measurement_gets = 0;
    int64_t winner_puts = 0;
    int64_t winner_gets = 0;
    int64_t template_puts = 0;
    int64_t miss_puts = 0;
  };

  InMemoryStore();
  ~InMemoryStore() override;

  // ---- Sabotage.
  // The next call that writes returns `status` and changes nothing.
  void FailNextPut(absl::Status status);
  // Every call that writes fails so until it is given OkStatus: a full or read-only disk.
  void FailPuts(absl::Status status);
  // Every call that reads fails so until it is given OkStatus.
  void FailGets(absl::Status status);
  // Flips a bit of the stored bytes; reading them is then DATA_LOSS. REQUIRES: they exist.
  void CorruptArtifact(const std::string& sha256);
  Counters counters() const;

  // A bound on SizeBytes(), kept by every later PutArtifact; 0: none.
  void SetBytesMax(int64_t bytes_max);

  // ---- KernelStore.
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
  absl::StatusOr<int64_t> SizeBytes() override;
  StoreRoom Room() override;
  void NoteUse(const std::string& sha256) override;
  std::shared_ptr<const void> Hold(const std::string& sha256) override {
    return uses_.Hold(sha256);
  }

 private:
  struct Tuning {
    TuningRecord record;
    std::vector<Measurement> measurements;
    std::map<std::string, size_t> row_of_config;
  };
  struct HeaderSet {
    std::string name;
    std::vector<SourceFile> files;
    int64_t sequence = 0;
  };
  using WinnerKey = std::tuple<std::string, std::string, Numerics>;
  using MissKey = std::tuple<std::string, std::string, std::string, std::string, std::string>;

  void Drop(const std::string& sha256) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckPut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t Size() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Evicts until `bytes` more fit.
  absl::Status MakeRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsWinners(const std::string& sha256) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::optional<Artifact>> Read(const std::string& sha256,
                                               const Artifact& description)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  TuningRecord WithCounts(const Tuning& tuning) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsTimed(const std::string& tuning_key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> fail_next_put_ ABSL_GUARDED_BY(mutex_);
  absl::Status fail_puts_ ABSL_GUARDED_BY(mutex_);
  absl::Status fail_gets_ ABSL_GUARDED_BY(mutex_);

  std::map<std::string, std::string> bytes_ ABSL_GUARDED_BY(mutex_);  // by SHA-256
  // By key, without bytes; with the order of storing.
  std::map<std::string, std::pair<int64_t, Artifact>> artifacts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::pair<std::string, int64_t>> logs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Tuning> tunings_ ABSL_GUARDED_BY(mutex_);
  std::map<WinnerKey, Winner> winners_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, WinnerPin> pins_ ABSL_GUARDED_BY(mutex_);
  std::vector<StoredTemplate> templates_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, HeaderSet> header_sets_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, DeviceCeilings> ceilings_ ABSL_GUARDED_BY(mutex_);  // by device
  std::map<MissKey, Miss> misses_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> used_ ABSL_GUARDED_BY(mutex_);  // the order of last uses
  StoreRoom room_ ABSL_GUARDED_BY(mutex_);
  ArtifactUses uses_;  // for its holds
  int64_t sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hone
