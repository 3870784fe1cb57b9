// Answers by request, in memory.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/mutex.h"
#include "runtime/cache/kernel_cache.h"

namespace hone {

// Tuned for the request itself or its bucket.
bool IsTuned(const KernelAnswer& answer);

// Thread-safe. Bounded: the oldest answer leaves first.
class AnswerMemory {
 public:
  explicit AnswerMemory(int64_t entries_max) : entries_max_(entries_max) {}

  std::optional<KernelAnswer> Find(const std::string& identity, bool only_tuned) const;

  // Grows with every Forget and ForgetNamed. An answer is only remembered if nothing was forgotten
  // since `epoch`, the Epoch() from before it was resolved.
  int64_t Epoch() const;
  void Remember(std::string identity, const KernelAnswer& answer, int64_t epoch);
  // All answers of a template: a new winner may also be another problem's bucket or neighbour.
  void Forget(const std::string& template_digest);
  // All answers of templates of this name (empty: of all), whatever their digest.
  void ForgetNamed(const std::string& template_name);

 private:
  void ForgetIf(const std::function<bool(const TunedKernel&)>& condition);

  const int64_t entries_max_;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, KernelAnswer> answers_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> order_ ABSL_GUARDED_BY(mutex_);
  int64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hone
