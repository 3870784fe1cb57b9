#include "tests/testing/in_memory_store.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

bool SameVariants(const Winner& a, const Winner& b) {
  return std::equal(a.variants.begin(), a.variants.end(), b.variants.begin(), b.variants.end(),
                    [](const WinnerVariant& x, const WinnerVariant& y) {
                      return x.config == y.config && x.artifact_sha256 == y.artifact_sha256;
                    });
}

bool NewerFirst(const TuningRecord& a, const TuningRecord& b) {
  if (a.created_at_unix_ms != b.created_at_unix_ms) {
    return a.created_at_unix_ms > b.created_at_unix_ms;
  }
  return a.key < b.key;
}

absl::Status NoTuning(const std::string& key) {
  return absl::FailedPreconditionError(
      absl::StrCat("tuning key ", key, " has no row yet; PutTuning comes first"));
}

}  // namespace

InMemoryStore::InMemoryStore() = default;
InMemoryStore::~InMemoryStore() = default;

void InMemoryStore::FailNextPut(absl::Status status) {
  MutexLock lock(&mutex_);
  fail_next_put_ = std::move(status);
}

void InMemoryStore::FailPuts(absl::Status status) {
  MutexLock lock(&mutex_);
  fail_puts_ = std::move(status);
}

void InMemoryStore::FailGets(absl::Status status) {
  MutexLock lock(&mutex_);
  fail_gets_ = std::move(status);
}

void InMemoryStore::CorruptArtifact(const std::string& sha256) {
  MutexLock lock(&mutex_);
  std::string& bytes = bytes_.at(sha256);
  if (bytes.empty()) bytes.push_back('\0');
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
}

InMemoryStore::Counters InMemoryStore::counters() const {
  MutexLock lock(&mutex_);
  return counters_;
}

absl::Status InMemoryStore::CheckPut() {
  if (fail_next_put_.has_value()) {
    const absl::Status status = *std::exchange(fail_next_put_, std::nullopt);
    if (!status.ok()) return status;
  }
  return fail_puts_;
}

absl::Status InMemoryStore::PutArtifact(const Key& key, const Artifact& artifact) {
  const std::string actual = Sha256Hex(artifact.bytes);
  MutexLock lock(&mutex_);
  ++counters_.artifact_puts;
  if (actual != artifact.sha256) {
    return absl::InvalidArgumentError(
        absl::StrCat("artifact.sha256 is '", artifact.sha256, "', but the bytes hash to ", actual));
  }
  HONE_RETURN_IF_ERROR(CheckPut());
  if (!bytes_.contains(actual)) {
    HONE_RETURN_IF_ERROR(MakeRoom(static_cast<int64_t>(artifact.bytes.size())));
  }
  bytes_[actual] = artifact.bytes;
  used_[actual] = ++sequence_;
  Artifact description = artifact;
  description.bytes.clear();
  artifacts_[key.id()] = {++sequence_, std::move(description)};
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Artifact>> InMemoryStore::Read(const std::string& sha256,
                                                            const Artifact& description) {
  Artifact artifact = description;
  artifact.bytes = bytes_.at(sha256);
  const std::string actual = Sha256Hex(artifact.bytes);
  if (actual != sha256) {
    Drop(sha256);
    return absl::DataLossError(absl::StrCat("artifact ", sha256, " is damaged: its bytes hash to ",
                                            actual, "; it has been dropped"));
  }
  used_[sha256] = ++sequence_;
  return artifact;
}

absl::StatusOr<std::optional<Artifact>> InMemoryStore::GetArtifact(const std::string& key_id) {
  MutexLock lock(&mutex_);
  ++counters_.artifact_gets;
  HONE_RETURN_IF_ERROR(fail_gets_);
  const auto found = artifacts_.find(key_id);
  if (found == artifacts_.end()) return std::nullopt;
  const Artifact description = found->second.second;  // a copy: reading may drop the row
  return Read(description.sha256, description);
}

absl::StatusOr<std::optional<Artifact>> InMemoryStore::GetArtifactBySha256(
    const std::string& sha256) {
  MutexLock lock(&mutex_);
  ++counters_.artifact_gets;
  HONE_RETURN_IF_ERROR(fail_gets_);
  std::map<int64_t, const Artifact*> by_age;
  for (const auto& [key, entry] : artifacts_) {
    if (entry.second.sha256 == sha256) by_age[entry.first] = &entry.second;
  }
  if (by_age.empty()) return std::nullopt;
  Artifact description = *by_age.rbegin()->second;
  for (const auto& [age, artifact] : by_age) {
    for (const auto& [expression, symbol] : artifact->lowered_names) {
      description.lowered_names.try_emplace(expression, symbol);
    }
  }
  return Read(sha256, description);
}

absl::Status InMemoryStore::QuarantineArtifact(const std::string& sha256) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(CheckPut());
  Drop(sha256);
  return absl::OkStatus();
}

void InMemoryStore::Drop(const std::string& sha256) {
  std::erase_if(artifacts_, [&](const auto& row) { return row.second.second.sha256 == sha256; });
  bytes_.erase(sha256);
  used_.erase(sha256);
}

absl::StatusOr<std::string> InMemoryStore::PutLog(const std::string& log, int64_t truncated_bytes) {
  const std::string id = Sha256Hex(log);
  MutexLock lock(&mutex_);
  ++counters_.log_puts;
  HONE_RETURN_IF_ERROR(CheckPut());
  logs_[id] = {log, truncated_bytes};
  return id;
}

absl::StatusOr<std::optional<std::pair<std::string, int64_t>>> InMemoryStore::GetLog(
    const std::string& log_id) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  const auto found = logs_.find(log_id);
  if (found == logs_.end()) return std::nullopt;
  return found->second;
}

absl::Status InMemoryStore::PutTuning(const TuningRecord& record) {
  MutexLock lock(&mutex_);
  ++counters_.tuning_puts;
  HONE_RETURN_IF_ERROR(CheckPut());
  tunings_.try_emplace(record.key, Tuning{record, {}});
  return absl::OkStatus();
}

absl::Status InMemoryStore::PutMeasurements(const std::string& tuning_key,
                                            const std::vector<Measurement>& measurements) {
  MutexLock lock(&mutex_);
  counters_.measurement_puts += static_cast<int64_t>(measurements.size());
  HONE_RETURN_IF_ERROR(CheckPut());
  const auto found = tunings_.find(tuning_key);
  if (found == tunings_.end()) return NoTuning(tuning_key);
  std::vector<Measurement>& rows = found->second.measurements;
  for (const Measurement& measurement : measurements) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Measurement& stored) {
      return stored.config == measurement.config;
    });
    if (row == rows.end()) {
      rows.push_back(measurement);
    } else {
      *row = measurement;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> InMemoryStore::GetMeasurements(
    const std::string& tuning_key) {
  MutexLock lock(&mutex_);
  ++counters_.measurement_gets;
  HONE_RETURN_IF_ERROR(fail_gets_);
  const auto found = tunings_.find(tuning_key);
  if (found == tunings_.end()) return std::vector<Measurement>();
  return found->second.measurements;
}

TuningRecord InMemoryStore::WithCounts(const Tuning& tuning) const {
  TuningRecord record = tuning.record;
  record.measured = record.rejected = 0;
  record.updated_at_unix_ms = record.created_at_unix_ms;
  for (const Measurement& measurement : tuning.measurements) {
    ++(measurement.rejection.has_value() ? record.rejected : record.measured);
    record.updated_at_unix_ms =
        std::max(record.updated_at_unix_ms, measurement.measured_at_unix_ms);
  }
  return record;
}

absl::StatusOr<std::optional<TuningRecord>> InMemoryStore::GetTuning(
    const std::string& tuning_key) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  const auto found = tunings_.find(tuning_key);
  if (found == tunings_.end()) return std::nullopt;
  return WithCounts(found->second);
}

absl::StatusOr<std::vector<std::string>> InMemoryStore::FindTunings(const std::string& prefix,
                                                                    int limit) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  std::vector<std::string> keys;
  for (auto it = tunings_.lower_bound(prefix); it != tunings_.end(); ++it) {
    if (!absl::StartsWith(it->first, prefix) || static_cast<int>(keys.size()) >= limit) break;
    keys.push_back(it->first);
  }
  return keys;
}

absl::StatusOr<TuningPage> InMemoryStore::ListTunings(const std::string& template_name,
                                                      int page_size,
                                                      const std::string& page_token) {
  if (page_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("page_size is ", page_size, ", want 1 or more"));
  }
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  std::vector<TuningRecord> records;
  for (const auto& [key, tuning] : tunings_) {
    if (template_name.empty() || tuning.record.template_name == template_name) {
      records.push_back(WithCounts(tuning));
    }
  }
  std::sort(records.begin(), records.end(), NewerFirst);
  if (!page_token.empty()) {
    const std::vector<std::string> parts = absl::StrSplit(page_token, ':');
    TuningRecord last;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &last.created_at_unix_ms)) {
      return absl::InvalidArgumentError(absl::StrCat("page_token '", page_token, "' is not ours"));
    }
    last.key = parts[1];
    records.erase(records.begin(),
                  std::upper_bound(records.begin(), records.end(), last, NewerFirst));
  }
  TuningPage page;
  if (records.size() > static_cast<size_t>(page_size)) {
    records.resize(static_cast<size_t>(page_size));
    page.next_page_token = absl::StrCat(records.back().created_at_unix_ms, ":", records.back().key);
  }
  page.records = std::move(records);
  return page;
}

bool InMemoryStore::HasWinner(const std::string& tuning_key) const {
  const auto found = winners_.lower_bound({tuning_key, "", Numerics::kWithinTolerance});
  return found != winners_.end() && std::get<0>(found->first) == tuning_key;
}

absl::StatusOr<std::vector<TuningRecord>> InMemoryStore::TuningsOf(const std::string& kernel_digest,
                                                                   const std::string& device_key) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  std::vector<TuningRecord> records;
  for (const auto& [key, tuning] : tunings_) {
    const bool device = device_key.empty() || tuning.record.device.Key() == device_key;
    if (tuning.record.kernel_digest == kernel_digest && device && HasWinner(key)) {
      records.push_back(WithCounts(tuning));
    }
  }
  std::sort(records.begin(), records.end(), NewerFirst);
  return records;
}

absl::StatusOr<uint64_t> InMemoryStore::PutWinner(const Winner& winner) {
  MutexLock lock(&mutex_);
  ++counters_.winner_puts;
  HONE_RETURN_IF_ERROR(CheckPut());
  if (!tunings_.contains(winner.tuning_key)) return NoTuning(winner.tuning_key);
  const auto [row, inserted] =
      winners_.try_emplace({winner.tuning_key, winner.template_digest, winner.numerics}, winner);
  const uint64_t generation =
      !inserted && SameVariants(row->second, winner) ? row->second.generation : ++generation_;
  row->second = winner;
  row->second.generation = generation;
  return generation;
}

absl::StatusOr<std::optional<Winner>> InMemoryStore::GetWinner(const std::string& tuning_key,
                                                               const std::string& template_digest,
                                                               Numerics numerics) {
  MutexLock lock(&mutex_);
  ++counters_.winner_gets;
  HONE_RETURN_IF_ERROR(fail_gets_);
  std::optional<Winner> newest;
  for (const auto& [key, winner] : winners_) {
    if (winner.tuning_key != tuning_key || winner.numerics != numerics) continue;
    if (!template_digest.empty() && winner.template_digest != template_digest) continue;
    if (!newest.has_value() || winner.generation > newest->generation) newest = winner;
  }
  return newest;
}

absl::StatusOr<uint64_t> InMemoryStore::PutPin(const WinnerPin& pin) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(CheckPut());
  if (!tunings_.contains(pin.tuning_key)) return NoTuning(pin.tuning_key);
  const auto [row, inserted] = pins_.try_emplace(pin.tuning_key, pin);
  const uint64_t generation =
      !inserted && row->second.config == pin.config ? row->second.generation : ++generation_;
  row->second = pin;
  row->second.generation = generation;
  return generation;
}

absl::StatusOr<std::optional<WinnerPin>> InMemoryStore::GetPin(const std::string& tuning_key) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  const auto found = pins_.find(tuning_key);
  if (found == pins_.end()) return std::nullopt;
  return found->second;
}

absl::StatusOr<InvalidationCount> InMemoryStore::InvalidateMeasurements(
    const InvalidationFilter& filter, const std::string& why, bool dry_run) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(CheckPut());
  InvalidationCount count;
  for (auto& [key, tuning] : tunings_) {
    if (!filter.template_name.empty() && tuning.record.template_name != filter.template_name) {
      continue;
    }
    if (!filter.device_key.empty() && tuning.record.device.Key() != filter.device_key) continue;
    const auto pin = pins_.find(key);
    const int64_t before = count.measurements;
    for (Measurement& measurement : tuning.measurements) {
      const bool excluded =
          measurement.rejection && measurement.rejection->kind == RejectionKind::kConstraint;
      if (excluded || !filter.Matches(measurement) || !measurement.invalidated.empty()) continue;
      if (pin != pins_.end() && pin->second.config == measurement.config) {
        ++count.pins_spared;
        continue;
      }
      ++count.measurements;
      if (!dry_run) measurement.invalidated = why;
    }
    count.tunings += count.measurements > before ? 1 : 0;
  }
  return count;
}

absl::Status InMemoryStore::PutTemplate(const StoredTemplate& stored) {
  MutexLock lock(&mutex_);
  ++counters_.template_puts;
  HONE_RETURN_IF_ERROR(CheckPut());
  const auto row = std::find_if(templates_.begin(), templates_.end(),
                                [&](const auto& other) { return other.digest == stored.digest; });
  if (row == templates_.end()) {
    templates_.push_back(stored);
  } else {
    *row = stored;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StoredTemplate>> InMemoryStore::ListTemplates() {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  return templates_;
}

absl::Status InMemoryStore::PutCeilings(const DeviceFingerprint& device,
                                        const DeviceCeilings& ceilings) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(CheckPut());
  ceilings_[device.Key()] = ceilings;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<DeviceCeilings>> InMemoryStore::GetCeilings(
    const std::string& device_key) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  const auto found = ceilings_.find(device_key);
  if (found == ceilings_.end()) return std::nullopt;
  return found->second;
}

absl::Status InMemoryStore::PutHeaderSet(const std::string& digest, const std::string& name,
                                         const std::vector<SourceFile>& files) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(CheckPut());
  header_sets_[digest] = {name, files, ++sequence_};
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::vector<SourceFile>>> InMemoryStore::GetHeaderSet(
    const std::string& digest) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  const auto found = header_sets_.find(digest);
  if (found == header_sets_.end()) return std::nullopt;
  return found->second.files;
}

absl::StatusOr<std::optional<std::string>> InMemoryStore::FindHeaderSet(
    const std::string& name_or_digest) {
  HONE_ASSIGN_OR_RETURN(const std::vector<StoredHeaderSet> sets, ListHeaderSets());
  for (const auto field : {&StoredHeaderSet::digest, &StoredHeaderSet::name}) {
    for (const StoredHeaderSet& set : sets) {
      if (set.*field == name_or_digest) return set.digest;
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<StoredHeaderSet>> InMemoryStore::ListHeaderSets() {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  std::map<int64_t, StoredHeaderSet> by_age;
  for (const auto& [digest, set] : header_sets_) by_age[-set.sequence] = {set.name, digest};
  std::vector<StoredHeaderSet> sets;
  for (auto& [age, set] : by_age) sets.push_back(std::move(set));
  return sets;
}

absl::Status InMemoryStore::RecordMisses(const std::vector<Miss>& misses) {
  MutexLock lock(&mutex_);
  ++counters_.miss_puts;
  HONE_RETURN_IF_ERROR(CheckPut());
  for (const Miss& miss : misses) {
    const auto [row, inserted] = misses_.try_emplace(
        {miss.template_digest, miss.problem, miss.architecture, miss.policy, miss.tuning_key},
        miss);
    row->second.count = (inserted ? 0 : row->second.count) + std::max<int64_t>(1, miss.count);
    row->second.last_at_unix_ms = std::max(row->second.last_at_unix_ms, miss.last_at_unix_ms);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Miss>> InMemoryStore::ListMisses(const MissFilter& filter) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  std::vector<Miss> misses;
  for (const auto& [key, miss] : misses_) {
    if (!filter.template_name.empty() && miss.template_name != filter.template_name) continue;
    if (miss.last_at_unix_ms < filter.since_unix_ms) continue;
    if (HasWinner(miss.tuning_key) || HasWinner(miss.bucket_key)) continue;
    misses.push_back(miss);
  }
  std::stable_sort(misses.begin(), misses.end(),
                   [](const Miss& a, const Miss& b) { return a.count > b.count; });
  const auto limit = static_cast<size_t>(std::max(0, filter.limit));
  if (misses.size() > limit) misses.resize(limit);
  return misses;
}

absl::StatusOr<int64_t> InMemoryStore::SizeBytes() {
  MutexLock lock(&mutex_);
  return Size();
}

void InMemoryStore::SetBytesMax(int64_t bytes_max) {
  MutexLock lock(&mutex_);
  room_.bytes_max = bytes_max;
}

StoreRoom InMemoryStore::Room() {
  MutexLock lock(&mutex_);
  return room_;
}

void InMemoryStore::NoteUse(const std::string& sha256) {
  MutexLock lock(&mutex_);
  if (bytes_.contains(sha256)) used_[sha256] = ++sequence_;
}

bool InMemoryStore::IsWinners(const std::string& sha256) const {
  for (const auto& [key, winner] : winners_) {
    for (const WinnerVariant& variant : winner.variants) {
      if (variant.artifact_sha256 == sha256) return true;
    }
  }
  return false;
}

absl::Status InMemoryStore::MakeRoom(int64_t bytes) {
  room_.exhausted = false;
  while (room_.bytes_max > 0 && Size() + bytes > room_.bytes_max) {
    std::map<int64_t, std::string> oldest;
    for (const auto& [sha256, use] : used_) {
      if (!IsWinners(sha256) && !uses_.IsHeld(sha256)) oldest[use] = sha256;
    }
    if (oldest.empty()) {
      room_.exhausted = true;
      return absl::ResourceExhaustedError(absl::StrCat("the store may take ", room_.bytes_max,
                                                       " bytes, and ", bytes, " more do not fit"));
    }
    const std::string evicted = oldest.begin()->second;
    ++room_.evictions;
    room_.evicted_bytes += static_cast<int64_t>(bytes_.at(evicted).size());
    Drop(evicted);
  }
  return absl::OkStatus();
}

int64_t InMemoryStore::Size() const {
  int64_t bytes = 0;
  for (const auto& [sha256, blob] : bytes_) bytes += static_cast<int64_t>(blob.size());
  for (const auto& [id, log] : logs_) bytes += static_cast<int64_t>(log.first.size());
  return bytes;
}

}  // namespace hone
