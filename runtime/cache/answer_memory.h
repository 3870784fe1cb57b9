// Answers by request, in memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/mutex.h"
#include "runtime/cache/kernel_cache.h"

namespace hone {

// Of a kernel's binaries; one that variants share counts for each.
int64_t BinaryBytesOf(const TunedKernel& kernel);

// Thread-safe. Bounded: the oldest answer leaves first.
class AnswerMemory {
 public:
  // `bytes_max` bounds the answers' binaries; one that several answers share counts for each.
  AnswerMemory(int64_t entries_max, int64_t bytes_max)
      : entries_max_(entries_max), bytes_max_(bytes_max) {}

  std::optional<KernelAnswer> Find(const std::string& identity, bool only_tuned) const;

  // Changes before anything remembered becomes another answer or is forgotten on purpose.
  int64_t Version() const { return version_.load(std::memory_order_acquire); }

  // Grows with every Forget and ForgetNamed. An answer is only remembered if nothing was forgotten
  // since `epoch`, the Epoch() from before it was resolved.
  int64_t Epoch() const;
  void Remember(std::string identity, const KernelAnswer& answer, int64_t epoch);
  // All answers of a template: a new winner may also be another problem's bucket or neighbour.
  void Forget(const std::string& template_digest);
  // All answers of templates of this name (empty: of all), whatever their digest.
  void ForgetNamed(const std::string& template_name);

  // The artifact if an answer that is remembered, or still in use elsewhere, holds it.
  std::shared_ptr<const Artifact> FindArtifact(const std::string& sha256) const;

 private:
  void ForgetIf(const std::function<bool(const TunedKernel&)>& condition);

  const int64_t entries_max_;
  const int64_t bytes_max_;
  std::atomic<int64_t> version_{0};
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, KernelAnswer> answers_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> order_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // By SHA-256. Those that are gone are cleared out whenever the table has doubled.
  absl::flat_hash_map<std::string, std::weak_ptr<const Artifact>> artifacts_
      ABSL_GUARDED_BY(mutex_);
  size_t artifacts_to_clear_ ABSL_GUARDED_BY(mutex_) = 1024;
};

}  // namespace hone
