#include "runtime/tune/resource_check.h"

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

Rejection TooMuch(const std::string& what, int64_t needed, int64_t limit) {
  return {.kind = RejectionKind::kResources,
          .detail = absl::StrCat(what, ": needs ", needed, ", limit ", limit),
          .needed = needed,
          .limit = limit,
          .log_id = {}};
}

std::optional<Rejection> CheckStep(const ResolvedStep& step, const EntryResources* resources,
                                   const DeviceLimits& limits) {
  const int64_t threads = int64_t{step.block[0]} * step.block[1] * step.block[2];
  if (threads > limits.max_threads_per_block) {
    return TooMuch("threads per block", threads, limits.max_threads_per_block);
  }
  const int64_t cluster = int64_t{step.cluster[0]} * step.cluster[1] * step.cluster[2];
  if (cluster > limits.max_cluster_size) {
    return TooMuch("blocks per cluster", cluster, limits.max_cluster_size);
  }
  const int64_t shared =
      step.dynamic_shared_bytes + (resources == nullptr ? 0 : resources->static_shared_bytes);
  if (shared > limits.shared_bytes_per_block_max) {
    return TooMuch("bytes of shared memory per block", shared, limits.shared_bytes_per_block_max);
  }
  if (resources == nullptr) return std::nullopt;
  if (resources->max_threads_per_block > 0 && threads > resources->max_threads_per_block) {
    return TooMuch("threads per block under the kernel's launch bounds", threads,
                   resources->max_threads_per_block);
  }
  // Registers are given out to whole warps in units of 256 (CUDA programming guide, compute
  // capabilities 7.x to 12.x).
  const int64_t warps = (threads + limits.warp_size - 1) / limits.warp_size;
  const int64_t per_warp = (int64_t{resources->registers} * limits.warp_size + 255) / 256 * 256;
  if (warps * per_warp > limits.registers_per_block) {
    return TooMuch("registers per block", warps * per_warp, limits.registers_per_block);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Rejection> CheckResources(const Artifact& artifact, const ResolvedLaunch& launch,
                                        const DeviceLimits& limits) {
  for (const ResolvedStep& step : launch.steps) {
    if (step.symbol.empty()) continue;
    if (auto rejection = CheckStep(step, artifact.FindResources(step.symbol), limits)) {
      return rejection;
    }
  }
  return std::nullopt;
}

}  // namespace hone
