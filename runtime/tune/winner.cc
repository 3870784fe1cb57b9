#include "runtime/tune/winner.h"

#include <algorithm>
#include <functional>

#include "runtime/tune/race.h"

namespace hone {
namespace {

bool Contends(const ConfigSpace& space, const Measurement& measurement) {
  return !measurement.rejection && !measurement.samples_ns.empty() &&
         space.Validate(measurement.config).ok();
}

// Whoever reached the final may win; without one, all. A candidate that came later and left its
// members behind needed no final.
void KeepFinalists(const std::vector<Measurement>& measurements, std::vector<size_t>& contenders) {
  double finalists_ns = 0, others_ns = 0;
  for (const size_t i : contenders) {
    const Measurement& measurement = measurements[i];
    double& best_ns = measurement.paired_ratio > 0 ? finalists_ns : others_ns;
    if (best_ns == 0 || measurement.median_ns < best_ns) best_ns = measurement.median_ns;
  }
  if (finalists_ns == 0 || (others_ns > 0 && others_ns * (1 + kFinalistMargin) < finalists_ns)) {
    return;
  }
  std::erase_if(contenders, [&](size_t i) { return measurements[i].paired_ratio == 0; });
}

// Those with the default's bits; none where these are not known.
void KeepBitsOfDefault(const ConfigSpace& space, const std::vector<Measurement>& measurements,
                       std::vector<size_t>& contenders) {
  const auto config = space.Default();
  const Measurement* standard = nullptr;
  for (const size_t i : contenders) {
    if (config.ok() && measurements[i].config == *config) standard = &measurements[i];
  }
  std::erase_if(contenders, [&](size_t i) {
    return standard == nullptr || !SameBits(*standard, measurements[i]);
  });
}

}  // namespace

double TimeRatio(const Measurement& a, const Measurement& b) {
  if (a.paired_ratio > 0 && b.paired_ratio > 0) return a.paired_ratio / b.paired_ratio;
  return a.median_ns / b.median_ns;
}

double NoiseShare(const Measurement& a, const Measurement& b) {
  if (a.paired_ratio > 0 && b.paired_ratio > 0) return kTieMargin;
  const double spread = std::min(std::max(a.spread, b.spread), kNoiseShareMax);
  return std::max(kTieMargin, spread);
}

std::optional<WinnerChoice> ChooseWinner(const ConfigSpace& space,
                                         const std::vector<Measurement>& measurements,
                                         const WinnerQuery& query) {
  std::vector<size_t> contenders;
  for (size_t i = 0; i < measurements.size(); ++i) {
    if (Contends(space, measurements[i])) contenders.push_back(i);
  }
  // Drops the others where there is one that `good` accepts.
  const auto prefer = [&](const std::function<bool(const Measurement&)>& good) {
    const auto accepted = [&](size_t i) { return good(measurements[i]); };
    if (!std::any_of(contenders.begin(), contenders.end(), accepted)) return;
    std::erase_if(contenders, [&](size_t i) { return !accepted(i); });
  };
  prefer([&](const Measurement& m) { return StaleReason(m, query.present).empty(); });
  prefer([](const Measurement& m) { return m.verified; });
  if (query.numerics == Numerics::kSameBitsAsDefault) {
    KeepBitsOfDefault(space, measurements, contenders);
  }
  if (contenders.empty()) return std::nullopt;

  const auto faster = [&](size_t a, size_t b) {
    return TimeRatio(measurements[a], measurements[b]) < 1;
  };
  std::vector<size_t> finalists = contenders;
  KeepFinalists(measurements, finalists);
  const size_t fastest = *std::min_element(finalists.begin(), finalists.end(), faster);
  size_t winner = fastest;
  for (const size_t i : finalists) {
    if (TimeRatio(measurements[i], measurements[fastest]) <= 1 + kTieMargin &&
        space.IndexOf(measurements[i].config) < space.IndexOf(measurements[winner].config)) {
      winner = i;
    }
  }
  if (const auto default_config = space.Default(); default_config.ok()) {
    for (const size_t i : contenders) {
      const Measurement& standing = measurements[i];
      if (standing.config == *default_config &&
          TimeRatio(measurements[winner], standing) >
              1 - NoiseShare(standing, measurements[winner])) {
        winner = i;
      }
    }
  }

  WinnerChoice choice{.winner = winner, .runner_up = std::nullopt};
  for (const size_t i : contenders) {
    if (AreSameWork(measurements[i], measurements[winner])) continue;
    if (!choice.runner_up || faster(i, *choice.runner_up)) choice.runner_up = i;
  }
  return choice;
}

}  // namespace hone
