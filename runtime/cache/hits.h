// Requests that memory answers, each use noted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/cache/answer_memory.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/cache/miss_log.h"
#include "runtime/cache/resolved_request.h"
#include "runtime/store/kernel_store.h"

namespace hone {

// Thread-safe. Touches neither disk nor compiler nor device: uses and misses are counted in memory
// and written later.
class Hits {
 public:
  // Whether an answer in memory may answer such a request; always the same for the same two.
  using Suits = std::function<bool(const ResolvedRequest&, Policy, const KernelAnswer&)>;

  // All must outlive this object.
  Hits(KernelStore* store, AnswerMemory* memory, MissLog* misses, Suits suits)
      : store_(store), memory_(memory), misses_(misses), suits_(std::move(suits)) {}

  std::optional<KernelAnswer> Find(const ResolvedRequest& request, Policy policy);
  // See KernelCache.
  std::shared_ptr<const KernelCache::Hit> FindHit(ResolvedRequest request, Policy policy);
  bool Again(const KernelCache::Hit& hit);

  int64_t count() const { return count_; }

 private:
  void Note(const KernelAnswer& answer, const std::string& identity, const ResolvedRequest& request,
            Policy policy);

  KernelStore* const store_;
  AnswerMemory* const memory_;
  MissLog* const misses_;
  const Suits suits_;
  std::atomic<int64_t> count_{0};
};

}  // namespace hone
