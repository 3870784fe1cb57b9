#include "runtime/kernel/config_sampler.h"

#include <utility>
#include <vector>

namespace hone {
namespace {

// Points that one is chosen from. The bias left is of the order of the weights' variance over this.
constexpr int kChosenFrom = 16;
// With one descent in a thousand succeeding, none in so many has a probability of e^-20.
constexpr int kDescentsMax = 20'000;

}  // namespace

std::optional<ConfigSampler::Descent> ConfigSampler::Descend(Random& random) const {
  const std::vector<Tunable>& tunables = space_->tunables();
  Descent descent{.point = {}, .weight = 1};
  std::vector<int64_t> values(tunables.size());
  std::vector<uint16_t> allowed;
  if (!space_->HoldsAtDepth(-1, values.data())) return std::nullopt;
  for (size_t depth = 0; depth < tunables.size(); ++depth) {
    allowed.clear();
    for (size_t i = 0; i < tunables[depth].values.size(); ++i) {
      values[depth] = tunables[depth].values[i];
      if (space_->HoldsAtDepth(static_cast<int>(depth), values.data())) {
        allowed.push_back(static_cast<uint16_t>(i));
      }
    }
    if (allowed.empty()) return std::nullopt;
    std::uniform_int_distribution<size_t> draw(0, allowed.size() - 1);
    descent.point.push_back(allowed[draw(random)]);
    values[depth] = tunables[depth].values[descent.point.back()];
    descent.weight *= static_cast<double>(allowed.size());
  }
  return descent;
}

std::optional<Point> ConfigSampler::Sample(Random& random) const {
  std::optional<Point> chosen;
  double total = 0;
  int found = 0;
  for (int i = 0; i < kDescentsMax && found < kChosenFrom; ++i) {
    std::optional<Descent> descent = Descend(random);
    if (!descent) continue;
    ++found;
    total += descent->weight;
    // Each ends up chosen with its share of the total.
    std::uniform_real_distribution<double> draw(0, total);
    if (!chosen || draw(random) < descent->weight) chosen = std::move(descent->point);
  }
  return chosen;
}

double ConfigSampler::EstimateCount(int descents, Random& random) const {
  double total = 0;
  for (int i = 0; i < descents; ++i) {
    if (const std::optional<Descent> descent = Descend(random)) total += descent->weight;
  }
  return descents > 0 ? total / descents : 0;
}

}  // namespace hone
