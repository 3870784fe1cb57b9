#include "runtime/tune/analytic_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// CUDA programming guide, technical specifications per compute capability: 2048 on 8.0, 9.0 and
// 10.0, fewer on consumer parts; blocks at most 32.
constexpr int64_t kThreadsPerSm = 2048;
constexpr int64_t kBlocksPerSm = 32;
constexpr int64_t kSystemSharedBytes = 1024;  // of every block, from 8.0 on
// The last-level cache gives 2 to 4 times what memory gives (A100 5.1 to 1.6 TB/s, H100 5.5
// to 3.3).
constexpr double kCacheOverMemory = 2.5;
// Two warps for each of the four schedulers.
constexpr double kWarpsToHideLatency = 8;
// Configs measured in spite of their estimate.
constexpr double kControlShare = 0.05;
constexpr size_t kControlsMin = 2;
constexpr size_t kControlsMax = 16;

int64_t Product(const std::array<uint32_t, 3>& extents) {
  return int64_t{extents[0]} * extents[1] * extents[2];
}

// How much longer than evenly spread, endlessly divisible work of enough warps.
double Slowdown(const ResolvedStep& step, const DeviceInfo& device) {
  const double multiprocessors = std::max(1, device.fingerprint.sm_count);
  const auto blocks = static_cast<double>(std::max<int64_t>(1, Product(step.grid)));
  const int64_t threads = std::max<int64_t>(1, Product(step.block));
  int64_t resident = std::min(kBlocksPerSm, std::max<int64_t>(1, kThreadsPerSm / threads));
  if (device.limits.shared_bytes_per_sm > 0) {
    const int64_t shared = step.dynamic_shared_bytes + kSystemSharedBytes;
    resident = std::clamp<int64_t>(device.limits.shared_bytes_per_sm / shared, 1, resident);
  }
  const double rounds = std::ceil(blocks / multiprocessors);
  const double imbalance = rounds * multiprocessors / blocks;
  const double warps = std::min(rounds, static_cast<double>(resident)) *
                       std::ceil(static_cast<double>(threads) / device.limits.warp_size);
  return imbalance / std::min(1.0, warps / kWarpsToHideLatency);
}

}  // namespace

double EstimateNs(const LaunchRecipe& recipe, const ResolvedLaunch& launch,
                  const SizeBindings& sizes, const DeviceInfo& device) {
  const auto evaluate = [&](const Expression& expression) {
    return static_cast<double>(expression.Evaluate(sizes).value_or(0));
  };
  const double gb_per_s = std::max(1.0, device.fingerprint.PeakMemoryGbPerS());
  const double bytes = evaluate(recipe.work_bytes);
  const double traffic = recipe.work_traffic_bytes ? evaluate(*recipe.work_traffic_bytes) : bytes;
  const double flops = evaluate(recipe.work_flops);
  // Where arithmetic can be the bound at all, tensor cores are what a good kernel uses.
  const double flops_per_ns = std::max(1.0, device.fingerprint.PeakFlopPerNs());
  const double work_ns = std::max(
      {bytes / gb_per_s, traffic / (gb_per_s * kCacheOverMemory), flops / flops_per_ns, 1.0});
  double slowdown = 1;
  for (const ResolvedStep& step : launch.steps) {
    if (!step.symbol.empty()) slowdown = std::max(slowdown, Slowdown(step, device));
  }
  return work_ns * slowdown;
}

absl::StatusOr<Ranking> RankConfigs(const CandidateBuilder& builder, const Problem& problem,
                                    const DeviceInfo& device, const std::vector<Config>& configs,
                                    const std::vector<Config>& always, double share,
                                    uint64_t seed) {
  const DeviceFacts facts = device.Facts();
  SizeBindings sizes = problem.dynamic_sizes();
  sizes.insert(facts.begin(), facts.end());
  std::vector<double> estimates_ns(configs.size(), 0);
  for (size_t i = 0; i < configs.size(); ++i) {
    if (std::find(always.begin(), always.end(), configs[i]) != always.end()) continue;
    HONE_ASSIGN_OR_RETURN(const LaunchRecipe recipe, builder.Outline(configs[i]));
    const auto launch =
        ResolveLaunch(recipe, OutlineArguments(recipe, problem.dynamic_sizes(), facts));
    if (launch.ok()) estimates_ns[i] = EstimateNs(recipe, *launch, sizes, device);
  }
  std::vector<size_t> order(configs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return estimates_ns[a] < estimates_ns[b]; });
  const auto wanted =
      static_cast<size_t>(std::clamp(std::ceil(share * static_cast<double>(configs.size())), 1.0,
                                     static_cast<double>(configs.size())));
  std::vector<size_t> rest(order.begin() + static_cast<int64_t>(wanted), order.end());
  order.resize(wanted);
  std::sort(order.begin(), order.end());
  Ranking ranking;
  for (const size_t i : order) ranking.kept.push_back(configs[i]);
  std::shuffle(rest.begin(), rest.end(), std::mt19937_64(seed));
  const auto controls = static_cast<size_t>(kControlShare * static_cast<double>(rest.size()));
  for (const size_t i : rest) {
    if (ranking.controls.size() < std::clamp(controls, kControlsMin, kControlsMax)) {
      ranking.controls.push_back(configs[i]);
    } else {
      ++ranking.left_out;
    }
  }
  return ranking;
}

}  // namespace hone
