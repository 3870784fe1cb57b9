#include "runtime/tune/compile_order.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace hone {
namespace {

// Elements that a thread works on, up to a factor that all configs of a space share.
double CodeSize(const CandidateBuilder& builder, const Problem& problem, const DeviceFacts& facts,
                const Config& config) {
  double product = 1;
  for (const auto& [name, value] : config.values()) {
    product *= static_cast<double>(std::max<int64_t>(1, value));
  }
  const auto recipe = builder.Outline(config);
  if (!recipe.ok()) return product;
  const auto launch =
      ResolveLaunch(*recipe, OutlineArguments(*recipe, problem.dynamic_sizes(), facts));
  if (!launch.ok()) return product;
  int64_t threads = 1;
  for (const ResolvedStep& step : launch->steps) {
    threads = std::max(threads, int64_t{step.block[0]} * step.block[1] * step.block[2]);
  }
  return product / static_cast<double>(threads);
}

}  // namespace

void OrderForCompiling(const CandidateBuilder& builder, const Problem& problem,
                       const DeviceFacts& facts, size_t kept, std::vector<Config>& configs) {
  std::vector<std::pair<double, Config>> sized;
  for (size_t i = kept; i < configs.size(); ++i) {
    sized.emplace_back(CodeSize(builder, problem, facts, configs[i]), configs[i]);
  }
  std::stable_sort(sized.begin(), sized.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < sized.size(); ++i) configs[kept + i] = std::move(sized[i].second);
}

}  // namespace hone
