// Persistent facts: templates, artifacts, devices, measurements, winners as their materialised
// query, and pins. SqliteStore implements it; InMemoryStore is a working fake run through the same
// contract suite.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/kernel/device_ceilings.h"
#include "runtime/kernel/keys.h"
#include "runtime/kernel/measurement.h"
#include "runtime/kernel/program.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {

// A stored template: bytes in the registering side's encoding, opaque here.
struct StoredTemplate {
  std::string digest;
  std::string name;
  std::string version;
  std::string encoded;
  std::string origin;  // "registered" or "catalog"
  int64_t registered_at_unix_ms = 0;
};

// The configs a TunedKernel is rebuilt from, in guard order.
struct WinnerVariant {
  Config config;
  std::string artifact_sha256;
};

struct Winner {
  std::string tuning_key;
  std::string template_digest;
  Numerics numerics = Numerics::kWithinTolerance;
  std::vector<WinnerVariant> variants;  // first: the winner; then fallbacks with weaker guards
  double runner_up_ratio = 0;           // runner-up median over winner median; 0: no runner-up
  uint64_t generation = 0;              // set by the store: grows with each change
  int64_t decided_at_unix_ms = 0;
  // Under which it was decided; empty in rows from before these existed.
  std::string driver;
  std::string compiler_build;
};

// A config that somebody chose for a tuning key. It stands for all templates of the key.
struct WinnerPin {
  std::string tuning_key;
  // Nullopt: was unpinned. The row stays, for its generation.
  std::optional<Config> config;
  std::string reason;
  std::string artifact_sha256;  // the binary that was measured with the config
  int64_t pinned_at_unix_ms = 0;
  uint64_t generation = 0;  // set by the store: grows with each change
};

// Which measurements InvalidateMeasurements means: all given fields match, empty ones match
// anything.
struct InvalidationFilter {
  std::string template_name;
  std::string device_key;  // DeviceFingerprint::Key()
  std::string driver;
  std::string compiler_build;

  bool Matches(const Measurement& measurement) const {
    return (driver.empty() || measurement.driver == driver) &&
           (compiler_build.empty() || measurement.compiler_build == compiler_build);
  }
};

struct InvalidationCount {
  int64_t tunings = 0;  // with at least one of the measurements
  int64_t measurements = 0;
  int64_t pins_spared = 0;
};

// One tuning key's row for listings.
struct TuningRecord {
  std::string key;  // Key::id()
  std::vector<std::pair<std::string, std::string>> ingredients;
  std::string template_name;
  std::string kernel_digest;
  std::string problem;  // Problem::ToString()
  std::string architecture;
  DeviceFingerprint device;
  int64_t created_at_unix_ms = 0;
  int64_t measured = 0;  // filled by listings
  int64_t rejected = 0;
  int64_t updated_at_unix_ms = 0;
};

struct Miss {
  std::string template_name;
  std::string template_digest;
  std::string problem;
  std::string architecture;
  std::string policy;
  // The key that was looked up and that of the problem's bucket; empty where only an architecture
  // was known.
  std::string tuning_key;
  std::string bucket_key;
  int64_t count = 0;
  int64_t last_at_unix_ms = 0;
};

struct MissFilter {
  std::string template_name;  // empty: all
  int64_t since_unix_ms = 0;  // seen then or later
  int limit = 100;
};

// A bound on a store's size and what keeping it cost.
struct StoreRoom {
  int64_t bytes_max = 0;  // 0: no bound
  int64_t evictions = 0;  // artifacts, since the store was opened
  int64_t evicted_bytes = 0;
  // What is left are winners' artifacts, held ones and what is no artifact: nothing can make room.
  bool exhausted = false;
};

struct StoredHeaderSet {
  std::string name;
  std::string digest;
};

struct TuningPage {
  std::vector<TuningRecord> records;
  std::string next_page_token;  // empty: no more
};

// Thread-safe. A row that no longer parses, or bytes that fail their hash, are DATA_LOSS, never
// "absent": the caller counts and rebuilds them. They are told once and dropped, so that the next
// call finds the rest. Errors of the medium are RESOURCE_EXHAUSTED (disk full, with path and free
// bytes), FAILED_PRECONDITION (read-only) or UNAVAILABLE (busy past the bound); no message of the
// database engine is passed on without context.
class KernelStore {
 public:
  virtual ~KernelStore() = default;

  // ---- Artifacts. Bytes and metadata become visible together or not at all.
  // Records that `key` gives `artifact` (replacing an earlier one). Identical bytes are kept once;
  // what is said about them (names, builder, log) is kept for each key. INVALID_ARGUMENT when
  // artifact.sha256 is not the hash of its bytes. RESOURCE_EXHAUSTED when it does not fit below
  // the store's bound and nothing more can be evicted.
  virtual absl::Status PutArtifact(const Key& key, const Artifact& artifact) = 0;
  // Under the key; nullopt if there is none. The bytes have been verified against their hash.
  virtual absl::StatusOr<std::optional<Artifact>> GetArtifact(const std::string& key_id) = 0;
  // Described as by the key stored last, with the lowered names of all keys that gave these bytes.
  virtual absl::StatusOr<std::optional<Artifact>> GetArtifactBySha256(
      const std::string& sha256) = 0;
  // Drops bytes that turned out to be unusable, with every artifact key that leads to them.
  // Measurements and winners stay: they name configs, whose binaries can be built again. OK if
  // there are none.
  virtual absl::Status QuarantineArtifact(const std::string& sha256) = 0;

  // ---- Logs, by id (the SHA-256 of what was kept). A log beyond the store's bound keeps its head
  // and tail and counts the rest as truncated; the oldest logs make room for new ones.
  virtual absl::StatusOr<std::string> PutLog(const std::string& log, int64_t truncated_bytes) = 0;
  // The log and its truncated bytes.
  virtual absl::StatusOr<std::optional<std::pair<std::string, int64_t>>> GetLog(
      const std::string& log_id) = 0;

  // ---- Measurements.
  // Creates the tuning key's row if it is new; an existing row stays as it is.
  virtual absl::Status PutTuning(const TuningRecord& record) = 0;
  // Inserts or replaces the rows of (tuning key, config), all of them or none. FAILED_PRECONDITION
  // without PutTuning first.
  virtual absl::Status PutMeasurements(const std::string& tuning_key,
                                       const std::vector<Measurement>& measurements) = 0;
  absl::Status PutMeasurement(const std::string& tuning_key, const Measurement& measurement) {
    return PutMeasurements(tuning_key, {measurement});
  }
  // In order of first insertion.
  virtual absl::StatusOr<std::vector<Measurement>> GetMeasurements(
      const std::string& tuning_key) = 0;
  // Sets `invalidated` of those that match and have none, in one transaction. A pinned config is
  // spared, points that a constraint excludes are no measurements. `dry_run`: counts only.
  virtual absl::StatusOr<InvalidationCount> InvalidateMeasurements(const InvalidationFilter& filter,
                                                                   const std::string& why,
                                                                   bool dry_run) = 0;
  virtual absl::StatusOr<std::optional<TuningRecord>> GetTuning(const std::string& tuning_key) = 0;
  // Keys that begin with `prefix`, sorted, at most `limit`.
  virtual absl::StatusOr<std::vector<std::string>> FindTunings(const std::string& prefix,
                                                               int limit) = 0;
  // By creation, newest first. `template_name` empty: all. INVALID_ARGUMENT for a token that no
  // page gave or a page size below 1.
  virtual absl::StatusOr<TuningPage> ListTunings(const std::string& template_name, int page_size,
                                                 const std::string& page_token) = 0;
  // Records with this kernel digest and DeviceFingerprint::Key() (empty: of any device) under which
  // something was timed, newest first: candidates for NEAREST.
  virtual absl::StatusOr<std::vector<TuningRecord>> TuningsOf(const std::string& kernel_digest,
                                                              const std::string& device_key) = 0;

  // ---- Winners.
  // Stores it with the next generation of the whole store, which is returned; unchanged variants
  // keep the old one. FAILED_PRECONDITION without PutTuning first.
  virtual absl::StatusOr<uint64_t> PutWinner(const Winner& winner) = 0;
  // `template_digest` empty: the newest winner of the key under any template.
  virtual absl::StatusOr<std::optional<Winner>> GetWinner(const std::string& tuning_key,
                                                          const std::string& template_digest,
                                                          Numerics numerics) = 0;

  // ---- Pins.
  // Replaces the key's row and gives it the next generation of the whole store, which is returned;
  // an unchanged config keeps the old one. FAILED_PRECONDITION without PutTuning first.
  virtual absl::StatusOr<uint64_t> PutPin(const WinnerPin& pin) = 0;
  // Nullopt: was never pinned.
  virtual absl::StatusOr<std::optional<WinnerPin>> GetPin(const std::string& tuning_key) = 0;

  // ---- Devices.
  // Replaces what was measured of the device before.
  virtual absl::Status PutCeilings(const DeviceFingerprint& device,
                                   const DeviceCeilings& ceilings) = 0;
  // By DeviceFingerprint::Key(); nullopt if they were not measured.
  virtual absl::StatusOr<std::optional<DeviceCeilings>> GetCeilings(
      const std::string& device_key) = 0;

  // ---- Templates, by digest and listed by registration, and header sets.
  virtual absl::Status PutTemplate(const StoredTemplate& stored) = 0;
  virtual absl::StatusOr<std::vector<StoredTemplate>> ListTemplates() = 0;
  // Files of a set by digest; `name` is an alias for people.
  virtual absl::Status PutHeaderSet(const std::string& digest, const std::string& name,
                                    const std::vector<SourceFile>& files) = 0;
  virtual absl::StatusOr<std::optional<std::vector<SourceFile>>> GetHeaderSet(
      const std::string& digest) = 0;
  // The digest that is meant: itself when a set has it, else the newest under the name. Reads no
  // file, so that a hit of a compile costs no megabytes.
  virtual absl::StatusOr<std::optional<std::string>> FindHeaderSet(
      const std::string& name_or_digest) = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<StoredHeaderSet>> ListHeaderSets() = 0;

  // ---- Misses.
  // Adds each one's count, at least 1, to the row of (digest, problem, architecture, policy, tuning
  // key). The rows not seen for longest make room beyond a bound.
  virtual absl::Status RecordMisses(const std::vector<Miss>& misses) = 0;
  absl::Status RecordMiss(const Miss& miss) { return RecordMisses({miss}); }
  // Most frequent first; without those under whose key or bucket something was timed by now.
  virtual absl::StatusOr<std::vector<Miss>> ListMisses(const MissFilter& filter) = 0;

  // ---- Size. A store with a bound evicts the artifacts used longest ago, with their keys, before
  // it grows beyond; winners' artifacts (of all variants) and held ones are spared. Storing and
  // reading an artifact are uses.
  // What the store takes where it is kept.
  virtual absl::StatusOr<int64_t> SizeBytes() = 0;
  virtual StoreRoom Room() = 0;
  // Notes a use that did not read the store. Touches memory only; uses are written in batches, and
  // the last of them may be lost with the process.
  virtual void NoteUse(const std::string& sha256) = 0;
  // Keeps the artifact from being evicted until the returned object, which may outlive the store,
  // is gone.
  virtual std::shared_ptr<const void> Hold(const std::string& sha256) = 0;
};

}  // namespace hone
