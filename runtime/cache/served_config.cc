#include "runtime/cache/served_config.h"

#include <algorithm>

#include "runtime/base/status_macros.h"

namespace hone {
namespace {

const Measurement* Of(const std::vector<Measurement>& measurements, const Config& config) {
  const auto found = std::find_if(measurements.begin(), measurements.end(),
                                  [&](const Measurement& m) { return m.config == config; });
  return found == measurements.end() ? nullptr : &*found;
}

bool IsTimed(const Measurement& measurement) {
  return !measurement.rejection && !measurement.samples_ns.empty();
}

const std::optional<Config>& PinnedConfig(const KeyDecisions& decisions) {
  static const auto& none = *new std::optional<Config>();
  return decisions.pin ? decisions.pin->config : none;
}

// A rejection that does not expire says that the config is wrong, not that its moment was.
bool PinStands(const Config& config, const std::vector<Measurement>& measurements) {
  const Measurement* const measured = Of(measurements, config);
  return measured == nullptr || !measured->rejection || Expires(measured->rejection->kind);
}

bool WinnerStands(const std::optional<Winner>& winner,
                  const std::vector<Measurement>& measurements) {
  if (!winner || winner->variants.empty()) return false;
  const Measurement* const measured = Of(measurements, winner->variants.front().config);
  return measured == nullptr || !measured->rejection;
}

uint64_t DecidedGeneration(const KeyDecisions& decisions) {
  return std::max(decisions.pin ? decisions.pin->generation : 0,
                  decisions.winner ? decisions.winner->generation : 0);
}

}  // namespace

absl::StatusOr<KeyDecisions> ReadDecisions(const std::string& tuning_key,
                                           const std::string& template_digest, Numerics numerics,
                                           KernelStore& store) {
  KeyDecisions decisions;
  HONE_ASSIGN_OR_RETURN(decisions.pin, store.GetPin(tuning_key));
  HONE_ASSIGN_OR_RETURN(decisions.winner, store.GetWinner(tuning_key, template_digest, numerics));
  return decisions;
}

bool Suits(const Config& config, Numerics numerics, const ConfigSpace& space,
           const std::vector<Measurement>& measurements) {
  if (!space.Validate(config).ok()) return false;
  if (numerics == Numerics::kWithinTolerance) return true;
  const auto default_config = space.Default();
  if (!default_config.ok()) return false;
  if (config == *default_config) return true;
  const Measurement* const standard = Of(measurements, *default_config);
  const Measurement* const chosen = Of(measurements, config);
  return standard != nullptr && chosen != nullptr && SameBits(*standard, *chosen);
}

std::optional<ServedConfig> ChooseServed(const ConfigSpace& space,
                                         const std::vector<Measurement>& measurements,
                                         const KeyDecisions& decisions, const WinnerQuery& query) {
  const auto suits = [&](const Config& config) {
    return Suits(config, query.numerics, space, measurements);
  };
  const std::optional<Config>& pinned = PinnedConfig(decisions);
  if (pinned && PinStands(*pinned, measurements) && suits(*pinned)) {
    return ServedConfig{
        .config = *pinned, .by = ServedBy::kPin, .generation = decisions.pin->generation};
  }
  const uint64_t generation = DecidedGeneration(decisions);
  if (WinnerStands(decisions.winner, measurements)) {
    const Config& config = decisions.winner->variants.front().config;
    if (suits(config)) {
      return ServedConfig{.config = config, .by = ServedBy::kWinner, .generation = generation};
    }
  }
  const auto choice = ChooseWinner(space, measurements, query);
  if (!choice) return std::nullopt;
  return ServedConfig{.config = measurements[choice->winner].config,
                      .by = ServedBy::kMeasurements,
                      .generation = generation};
}

std::optional<ServedConfig> ChooseWithoutTemplate(const std::vector<Measurement>& measurements,
                                                  const KeyDecisions& decisions,
                                                  Numerics numerics) {
  const bool any_bits = numerics == Numerics::kWithinTolerance;
  const std::optional<Config>& pinned = PinnedConfig(decisions);
  if (any_bits && pinned && PinStands(*pinned, measurements)) {
    return ServedConfig{
        .config = *pinned, .by = ServedBy::kPin, .generation = decisions.pin->generation};
  }
  const uint64_t generation = DecidedGeneration(decisions);
  if (WinnerStands(decisions.winner, measurements)) {
    return ServedConfig{.config = decisions.winner->variants.front().config,
                        .by = ServedBy::kWinner,
                        .generation = generation};
  }
  const Measurement* fastest = nullptr;
  for (const Measurement& measurement : measurements) {
    if (!any_bits || !IsTimed(measurement)) continue;
    if (fastest == nullptr || measurement.median_ns < fastest->median_ns) fastest = &measurement;
  }
  if (fastest == nullptr) return std::nullopt;
  return ServedConfig{
      .config = fastest->config, .by = ServedBy::kMeasurements, .generation = generation};
}

}  // namespace hone
