#include "runtime/store/artifact_uses.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace hone {
namespace {

// Where nothing can be written, notes must not fill the memory.
constexpr size_t kNotedMax = 100'000;

}  // namespace

ArtifactUses::ArtifactUses() : holds_(std::make_shared<Holds>()) {}

void ArtifactUses::Note(const std::string& sha256) {
  const int64_t now_us = absl::ToUnixMicros(absl::Now());
  MutexLock lock(&mutex_);
  if (noted_.size() >= kNotedMax && !noted_.contains(sha256)) return;
  last_unix_us_ = std::max(last_unix_us_ + 1, now_us);
  noted_[sha256] = last_unix_us_;
}

std::vector<std::pair<std::string, int64_t>> ArtifactUses::TakeNoted() {
  MutexLock lock(&mutex_);
  std::vector<std::pair<std::string, int64_t>> taken(noted_.begin(), noted_.end());
  noted_.clear();
  return taken;
}

bool ArtifactUses::IsNoted(const std::string& sha256) const {
  MutexLock lock(&mutex_);
  return noted_.contains(sha256);
}

std::shared_ptr<const void> ArtifactUses::Hold(const std::string& sha256) {
  {
    MutexLock lock(&holds_->mutex);
    ++holds_->counts[sha256];
  }
  return {nullptr, [holds = holds_, sha256](const void*) {
            MutexLock lock(&holds->mutex);
            const auto it = holds->counts.find(sha256);
            if (--it->second == 0) holds->counts.erase(it);
          }};
}

bool ArtifactUses::IsHeld(const std::string& sha256) const {
  MutexLock lock(&holds_->mutex);
  return holds_->counts.contains(sha256);
}

}  // namespace hone
