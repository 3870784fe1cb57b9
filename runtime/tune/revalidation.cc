#include "runtime/tune/revalidation.h"

#include <algorithm>
#include <utility>

#include "runtime/tune/winner.h"

namespace hone {

namespace {

bool Contains(const std::vector<Config>& configs, const Config& config) {
  return std::find(configs.begin(), configs.end(), config) != configs.end();
}

}  // namespace

Revalidation::Revalidation(const ConfigSpace& space, const std::vector<Measurement>& known,
                           const std::vector<Config>& incumbents)
    : incumbent_(incumbents.empty() ? std::nullopt : std::make_optional(incumbents.front())) {
  std::vector<Measurement> timed;
  for (const Measurement& measurement : known) {
    if (!measurement.rejection && !measurement.samples_ns.empty() &&
        space.Validate(measurement.config).ok()) {
      timed.push_back(measurement);
    }
  }
  for (const Config& config : incumbents) {
    const bool has_time = std::any_of(timed.begin(), timed.end(),
                                      [&](const Measurement& m) { return m.config == config; });
    if (has_time && !Contains(incumbents_, config)) incumbents_.push_back(config);
  }
  std::stable_sort(timed.begin(), timed.end(), [](const Measurement& a, const Measurement& b) {
    // What has a reference and agrees with it goes before what was only compared.
    if (a.verified != b.verified) return a.verified;
    return a.median_ns < b.median_ns;
  });
  for (const Measurement& measurement : timed) {
    if (!Contains(incumbents_, measurement.config)) others_.push_back(measurement.config);
  }
}

std::vector<Config> Revalidation::NextOthers() {
  std::vector<Config> taken;
  while (next_ < others_.size() && taken.size() < kRevalidatedAtOnce) {
    taken.push_back(others_[next_++]);
  }
  last_ = {taken.begin(), taken.end()};
  return taken;
}

std::vector<Config> Revalidation::HandOut(std::vector<Config> configs) {
  asked_.insert(configs.begin(), configs.end());
  return configs;
}

std::vector<Config> Revalidation::First() {
  std::vector<Config> configs = incumbents_;
  const std::vector<Config> others = NextOthers();
  configs.insert(configs.end(), others.begin(), others.end());
  return HandOut(std::move(configs));
}

void Revalidation::Observe(const Measurement& measurement) {
  if (Asked(measurement.config)) ++measured_;
  if (measurement.config == incumbent_) incumbent_ns_ = measurement.median_ns;
  if (fastest_ && measurement.median_ns >= fastest_ns_) return;
  fastest_ = measurement.config;
  fastest_ns_ = measurement.median_ns;
}

std::vector<Config> Revalidation::More() {
  if (!fastest_ || !last_.contains(*fastest_)) return {};
  if (incumbent_ns_ && *incumbent_ns_ <= fastest_ns_ * (1 + kTieMargin)) return {};
  return HandOut(NextOthers());
}

}  // namespace hone
