#include "runtime/tune/tuning_analysis.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/tune/winner.h"

namespace hone {
namespace {

bool IsTimed(const Measurement& measurement) {
  return !measurement.rejection && measurement.median_ns > 0;
}

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

CeilingShare ShareOf(const Ceiling& ceiling, double amount, double ns) {
  CeilingShare share;
  share.ceiling = ceiling;
  // GB/s are bytes a nanosecond, TFLOP/s are 1,000 operations a nanosecond.
  const double per_ns = ceiling.unit == "TFLOP/s" ? ceiling.value * 1e3 : ceiling.value;
  share.least_ns = amount / per_ns;
  share.share = share.least_ns / ns;
  share.achieved = ceiling.value * share.share;
  return share;
}

void AddArithmetic(double ns, const Workload& work, const DeviceCeilings& ceilings,
                   std::vector<CeilingShare>& shares) {
  const auto flops = static_cast<double>(work.flops);
  if (work.matrix_type.empty()) {
    if (const Ceiling* f32 = ceilings.Find(kF32Ceiling)) shares.push_back(ShareOf(*f32, flops, ns));
    return;
  }
  for (const bool wgmma : {false, true}) {
    const Ceiling* ceiling =
        ceilings.Find(absl::StrCat(wgmma ? "wgmma_" : "mma_sync_", work.matrix_type));
    // Whoever uses the faster way is not held against the slower one.
    if (ceiling == nullptr || (work.wgmma && !wgmma)) continue;
    shares.push_back(ShareOf(*ceiling, flops, ns));
    shares.back().of_another_instruction = wgmma != work.wgmma;
  }
}

Bound BoundBy(const CeilingShare& share) {
  if (share.ceiling.name == kCopyCeiling) return Bound::kMemory;
  if (share.ceiling.name == kLaunchCeiling) return Bound::kLaunch;
  return Bound::kArithmetic;
}

// The ceiling that holds the kernel; nullptr: it is far from all.
const CeilingShare* Holding(const std::vector<CeilingShare>& shares) {
  const CeilingShare* holding = nullptr;
  for (const CeilingShare& share : shares) {
    const double enough = BoundBy(share) == Bound::kLaunch ? kLaunchBoundShare : kBoundShare;
    if (share.of_another_instruction || share.share < enough) continue;
    if (holding == nullptr || share.share > holding->share) holding = &share;
  }
  return holding;
}

std::string HeldReason(const CeilingShare& holding) {
  const double enough = BoundBy(holding) == Bound::kLaunch ? kLaunchBoundShare : kBoundShare;
  return absl::StrCat(Percent(holding.share), " of the time is what the ", holding.ceiling.name,
                      " ceiling alone takes; ", Percent(enough), " and more counts as bound by it");
}

std::string FreeReason(const std::vector<CeilingShare>& shares) {
  std::vector<std::string> texts;
  for (const CeilingShare& share : shares) {
    if (!share.of_another_instruction) {
      texts.push_back(absl::StrCat(Percent(share.share), " of ", share.ceiling.name));
    }
  }
  return absl::StrCat(
      absl::StrJoin(texts, ", "), ": all below what counts as bound (", Percent(kBoundShare),
      "; of launch ", Percent(kLaunchBoundShare),
      "). Either latencies hold it (too little in flight, waits, uneven work) or it does more than "
      "the work needs (partly used sectors, data read again, spills): a profiler's counters tell "
      "which");
}

double LeastNs(const std::vector<CeilingShare>& shares) {
  double least_ns = 0;
  std::optional<double> arithmetic_ns;
  for (const CeilingShare& share : shares) {
    if (BoundBy(share) == Bound::kArithmetic) {
      arithmetic_ns = std::min(arithmetic_ns.value_or(share.least_ns), share.least_ns);
    } else {
      least_ns = std::max(least_ns, share.least_ns);
    }
  }
  return std::max(least_ns, arithmetic_ns.value_or(0));
}

std::string WithoutTunable(const Config& config, const std::string& name) {
  std::string rest;
  for (const auto& [tunable, value] : config.values()) {
    if (tunable != name) absl::StrAppend(&rest, tunable, "=", value, " ");
  }
  return rest;
}

std::optional<int64_t> ValueIn(const Config& config, const std::string& name) {
  for (const auto& [tunable, value] : config.values()) {
    if (tunable == name) return value;
  }
  return std::nullopt;
}

double GeometricMean(const std::vector<double>& ratios) {
  double sum = 0;
  for (const double ratio : ratios) sum += std::log(ratio);
  return ratios.empty() ? 0 : std::exp(sum / static_cast<double>(ratios.size()));
}

TunableEffect EffectOf(const std::string& name, const std::vector<Measurement>& measurements,
                       const Measurement& reference) {
  struct Found {
    std::vector<double> ratios;
    int rejected = 0;
  };
  std::map<int64_t, Found> by_value;
  std::map<std::string, std::vector<double>> groups;  // by the other tunables
  for (const Measurement& measurement : measurements) {
    const std::optional<int64_t> value = ValueIn(measurement.config, name);
    if (!value) continue;
    if (IsTimed(measurement)) {
      const double ratio = TimeRatio(measurement, reference);
      by_value[*value].ratios.push_back(ratio);
      groups[WithoutTunable(measurement.config, name)].push_back(ratio);
    } else if (measurement.rejection && measurement.rejection->kind != RejectionKind::kConstraint) {
      ++by_value[*value].rejected;
    }
  }
  TunableEffect effect;
  effect.name = name;
  for (const auto& [value, found] : by_value) {
    ValueEffect& to = effect.values.emplace_back();
    to.value = value;
    to.measured = static_cast<int>(found.ratios.size());
    to.rejected = found.rejected;
    if (found.ratios.empty()) continue;
    to.best_ratio = *std::min_element(found.ratios.begin(), found.ratios.end());
    to.mean_ratio = GeometricMean(found.ratios);
  }
  std::vector<double> spans;
  for (const auto& [rest, ratios] : groups) {
    if (ratios.size() < 2) continue;
    const auto [fastest, slowest] = std::minmax_element(ratios.begin(), ratios.end());
    spans.push_back(*slowest / *fastest);
  }
  effect.matters = GeometricMean(spans);
  effect.groups = static_cast<int>(spans.size());
  return effect;
}

}  // namespace

std::string Name(Bound bound) {
  switch (bound) {
    case Bound::kNone:
      return "none";
    case Bound::kMemory:
      return "memory";
    case Bound::kArithmetic:
      return "arithmetic";
    case Bound::kLaunch:
      return "launch";
    case Bound::kUnknown:
      break;
  }
  return "unknown";
}

Roofline PlaceUnderCeilings(double ns, const Workload& work, const DeviceCeilings& ceilings) {
  Roofline roofline;
  if (const Ceiling* copy = ceilings.Find(kCopyCeiling); copy != nullptr && work.bytes > 0) {
    roofline.shares.push_back(ShareOf(*copy, static_cast<double>(work.bytes), ns));
  }
  if (work.flops > 0) AddArithmetic(ns, work, ceilings, roofline.shares);
  const bool knows_work = !roofline.shares.empty();
  if (const Ceiling* launch = ceilings.Find(kLaunchCeiling)) {
    CeilingShare share;
    share.ceiling = *launch;
    share.achieved = ns;
    share.least_ns = launch->value;
    share.share = launch->value / ns;
    roofline.shares.push_back(std::move(share));
  }
  const CeilingShare* holding = Holding(roofline.shares);
  if (holding != nullptr) {
    roofline.bound = BoundBy(*holding);
    roofline.reason = HeldReason(*holding);
  } else if (knows_work) {
    roofline.bound = Bound::kNone;
    roofline.reason = FreeReason(roofline.shares);
  } else {
    roofline.reason = "neither bytes nor operations can be held against a ceiling";
  }
  if (knows_work) roofline.least_ns = LeastNs(roofline.shares);
  return roofline;
}

std::vector<TunableEffect> TunableEffects(const std::vector<Measurement>& measurements,
                                          const Measurement& reference) {
  std::vector<TunableEffect> effects;
  for (const auto& [name, value] : reference.config.values()) {
    effects.push_back(EffectOf(name, measurements, reference));
  }
  std::stable_sort(effects.begin(), effects.end(),
                   [](const auto& a, const auto& b) { return a.matters > b.matters; });
  return effects;
}

const Measurement* FastestWith(const std::vector<Measurement>& measurements, const Config& values) {
  const Measurement* fastest = nullptr;
  for (const Measurement& measurement : measurements) {
    const bool has_all =
        std::all_of(values.values().begin(), values.values().end(), [&](const auto& wanted) {
          return ValueIn(measurement.config, wanted.first) == wanted.second;
        });
    if (!has_all || !IsTimed(measurement)) continue;
    if (fastest == nullptr || TimeRatio(measurement, *fastest) < 1) fastest = &measurement;
  }
  return fastest;
}

const Measurement* RunnerUpTo(const std::vector<Measurement>& measurements,
                              const Measurement& subject) {
  const Measurement* closest = nullptr;
  for (const Measurement& measurement : measurements) {
    if (!IsTimed(measurement) || measurement.config == subject.config) continue;
    if (subject.verified && !measurement.verified) continue;
    if (closest == nullptr || TimeRatio(measurement, subject) < TimeRatio(*closest, subject)) {
      closest = &measurement;
    }
  }
  return closest;
}

}  // namespace hone
