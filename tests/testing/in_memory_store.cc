#include "tests/testing/in_memory_store.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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
    const auto [row, added] =
        found->second.row_of_config.try_emplace(measurement.config.ToString(), rows.size());
    if (added) {
      rows.push_back(measurement);
    } else {
      rows[row->second] = measurement;
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

bool InMemoryStore::IsTimed(const std::string& tuning_key) const {
  const auto found = tunings_.find(tuning_key);
  if (found == tunings_.end()) return false;
  const std::vector<Measurement>& rows = found->second.measurements;
  return std::any_of(rows.begin(), rows.end(), [](const Measurement& m) { return !m.rejection; });
}

absl::StatusOr<std::vector<TuningRecord>> InMemoryStore::TuningsOf(const std::string& kernel_digest,
                                                                   const std::string& device_key) {
  MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(fail_gets_);
  std::vector<TuningRecord> records;
  for (const auto& [key, tuning] : tunings_) {
    const bool device = device_key.empty() || tuning.record.device.Key() == device_key;
    if (tuning.record.kernel_digest == kernel_digest && device && IsTimed(key)) {
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
    if (IsTimed(miss.tuning_key) || IsTimed(miss.bucket_key)) continue;
    misses.push_back(miss);
  }
  std::stable_sort(misses.begin(), misses.end(),
                   [](const Miss& a, const Miss& b) { return a.count > b.count; });
  const auto limit = static_cast<size_t>(std::max(0, filter.limit));
  if (misses.size() > limit) misses.resize(limit);
  return misses;
}

}  // namespace hone
