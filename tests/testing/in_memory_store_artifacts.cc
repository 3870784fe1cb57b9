// Artifacts, logs and the bound on their size.
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "tests/testing/in_memory_store.h"

namespace hone {

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
