#include "runtime/cache/answer_memory.h"

#include <utility>

namespace hone {

bool IsTuned(const KernelAnswer& answer) {
  return answer.source == AnswerSource::kTuned || answer.source == AnswerSource::kBucket;
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
  if (answers_.insert_or_assign(identity, answer).second) order_.push_back(std::move(identity));
  while (static_cast<int64_t>(order_.size()) > entries_max_) {
    answers_.erase(order_.front());
    order_.pop_front();
  }
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
  std::erase_if(order_, [&](const std::string& identity) {
    const auto it = answers_.find(identity);
    if (it != answers_.end() && !condition(*it->second.kernel)) return false;
    answers_.erase(identity);
    return true;
  });
}

}  // namespace hone
