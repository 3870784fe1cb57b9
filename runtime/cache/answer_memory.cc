#include "runtime/cache/answer_memory.h"

#include <algorithm>
#include <utility>

namespace hone {
int64_t BinaryBytesOf(const TunedKernel& kernel) {
  int64_t bytes = 0;
  for (const KernelVariant& variant : kernel.variants) {
    bytes += static_cast<int64_t>(variant.artifact->bytes.size());
  }
  return bytes;
}

std::optional<KernelAnswer> AnswerMemory::Find(const std::string& identity, bool only_tuned) const {
  MutexLock lock(&mutex_);
  const auto it = answers_.find(identity);
  if (it == answers_.end() || (only_tuned && !IsTuned(it->second))) return std::nullopt;
  return it->second;
}

int64_t AnswerMemory::Epoch() const {
  MutexLock lock(&mutex_);
  return epoch_;
}

void AnswerMemory::Remember(std::string identity, const KernelAnswer& answer, int64_t epoch) {
  MutexLock lock(&mutex_);
  if (epoch != epoch_) return;
  for (const KernelVariant& variant : answer.kernel->variants) {
    artifacts_[variant.artifact->sha256] = variant.artifact;
  }
  if (artifacts_.size() >= artifacts_to_clear_) {
    absl::erase_if(artifacts_, [](const auto& item) { return item.second.expired(); });
    artifacts_to_clear_ = std::max<size_t>(1024, 2 * artifacts_.size());
  }
  bytes_ += BinaryBytesOf(*answer.kernel);
  if (const auto it = answers_.find(identity); it != answers_.end()) {
    ++version_;
    bytes_ -= BinaryBytesOf(*it->second.kernel);
    it->second = answer;
  } else {
    answers_.emplace(identity, answer);
    order_.push_back(std::move(identity));
  }
  // The newest stays, whatever its size.
  while (static_cast<int64_t>(order_.size()) > entries_max_ ||
         (bytes_ > bytes_max_ && order_.size() > 1)) {
    const auto oldest = answers_.find(order_.front());
    bytes_ -= BinaryBytesOf(*oldest->second.kernel);
    answers_.erase(oldest);
    order_.pop_front();
  }
}

std::shared_ptr<const Artifact> AnswerMemory::FindArtifact(const std::string& sha256) const {
  MutexLock lock(&mutex_);
  const auto it = artifacts_.find(sha256);
  return it == artifacts_.end() ? nullptr : it->second.lock();
}

void AnswerMemory::Forget(const std::string& template_digest) {
  ForgetIf([&](const TunedKernel& kernel) { return kernel.template_digest == template_digest; });
}

void AnswerMemory::ForgetNamed(const std::string& template_name) {
  ForgetIf([&](const TunedKernel& kernel) {
    return template_name.empty() || kernel.template_name == template_name;
  });
}

void AnswerMemory::ForgetIf(const std::function<bool(const TunedKernel&)>& condition) {
  MutexLock lock(&mutex_);
  ++epoch_;
  ++version_;
  std::erase_if(order_, [&](const std::string& identity) {
    const auto it = answers_.find(identity);
    if (!condition(*it->second.kernel)) return false;
    bytes_ -= BinaryBytesOf(*it->second.kernel);
    answers_.erase(it);
    return true;
  });
}

}  // namespace hone
