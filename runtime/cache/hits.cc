#include "runtime/cache/hits.h"

#include <utility>

namespace hone {
namespace {

// With what it takes to note each use.
struct MemoryHit : KernelCache::Hit {
  ResolvedRequest request;
  std::string identity;
  Policy policy = Policy::kBestAvailable;
  int64_t version = 0;  // of the memory
};

}  // namespace

std::optional<KernelAnswer> Hits::Find(const ResolvedRequest& request, Policy policy) {
  const std::string identity = request.Identity();
  auto found = memory_->Find(identity, policy == Policy::kWaitTuned);
  if (!found || !suits_(request, policy, *found)) return std::nullopt;
  Note(*found, identity, request, policy);
  return found;
}

void Hits::Note(const KernelAnswer& answer, const std::string& identity,
                const ResolvedRequest& request, Policy policy) {
  ++count_;
  for (const KernelVariant& variant : answer.kernel->variants) {
    store_->NoteUse(variant.artifact->sha256);
  }
  if (!IsTuned(answer)) misses_->Note(identity, request, policy, 1);
}

std::shared_ptr<const KernelCache::Hit> Hits::FindHit(ResolvedRequest request, Policy policy) {
  auto hit = std::make_shared<MemoryHit>();
  hit->version = memory_->Version();  // before looking: what changes meanwhile is seen by Again
  auto found = Find(request, policy);
  if (!found) return nullptr;
  hit->answer = *std::move(found);
  hit->identity = request.Identity();
  hit->request = std::move(request);
  hit->policy = policy;
  return hit;
}

bool Hits::Again(const KernelCache::Hit& hit) {
  const auto& memory_hit = static_cast<const MemoryHit&>(hit);
  if (memory_hit.version != memory_->Version()) return false;
  Note(hit.answer, memory_hit.identity, memory_hit.request, memory_hit.policy);
  return true;
}

}  // namespace hone
