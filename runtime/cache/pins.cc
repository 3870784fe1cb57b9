#include "runtime/cache/pins.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// Of the configs that an error proposes.
constexpr size_t kProposalsMax = 3;

// "measured are 'X=1' (1200 ns), 'X=2' (1300 ns)".
std::string Proposals(std::vector<Measurement> measurements) {
  std::erase_if(measurements, [](const Measurement& m) {
    return m.rejection.has_value() || m.samples_ns.empty();
  });
  if (measurements.empty()) return "nothing was measured under this key; tune it first";
  std::stable_sort(
      measurements.begin(), measurements.end(),
      [](const Measurement& a, const Measurement& b) { return a.median_ns < b.median_ns; });
  const size_t count = measurements.size();
  measurements.resize(std::min(count, kProposalsMax));
  return absl::StrCat(count > kProposalsMax ? "the fastest measured are " : "measured are ",
                      absl::StrJoin(measurements, ", ", [](std::string* out, const Measurement& m) {
                        absl::StrAppend(out, "'", m.config.ToString(), "' (", m.median_ns, " ns)");
                      }));
}

}  // namespace

absl::StatusOr<WinnerPin> PinConfig(const std::string& tuning_key, const Config& config,
                                    const std::string& reason, KernelStore& store) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Measurement> measurements,
                        store.GetMeasurements(tuning_key));
  // Measured configs have their tunables in the order of declaration.
  const Config wanted = measurements.empty() ? config : config.InOrderOf(measurements[0].config);
  const auto found = std::find_if(measurements.begin(), measurements.end(),
                                  [&](const Measurement& m) { return m.config == wanted; });
  if (found == measurements.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("config: '", wanted.ToString(),
                     "' was never measured under this key, so nothing says that it "
                     "is right; ",
                     Proposals(measurements)));
  }
  if (found->rejection) {
    return absl::FailedPreconditionError(absl::StrCat(
        "config: '", wanted.ToString(), "' was rejected: ", Name(found->rejection->kind), ": ",
        found->rejection->detail, "; ", Proposals(measurements)));
  }
  WinnerPin pin{.tuning_key = tuning_key,
                .config = found->config,
                .reason = reason,
                .artifact_sha256 = found->artifact_sha256,
                .pinned_at_unix_ms = absl::ToUnixMillis(absl::Now())};
  HONE_ASSIGN_OR_RETURN(pin.generation, store.PutPin(pin));
  return pin;
}

absl::StatusOr<WinnerPin> UnpinConfig(const std::string& tuning_key, KernelStore& store) {
  HONE_ASSIGN_OR_RETURN(std::optional<WinnerPin> pin, store.GetPin(tuning_key));
  if (!pin || !pin->config) {
    return absl::FailedPreconditionError(
        absl::StrCat("key: ", tuning_key, " is not pinned; ListTunings shows which keys are"));
  }
  WinnerPin none{.tuning_key = tuning_key};
  none.pinned_at_unix_ms = absl::ToUnixMillis(absl::Now());
  HONE_ASSIGN_OR_RETURN(pin->generation, store.PutPin(none));
  return *std::move(pin);
}

uint64_t ServedGeneration(const std::optional<WinnerPin>& pin, uint64_t winner_generation,
                          Numerics numerics) {
  if (!pin) return winner_generation;
  const bool pinned = pin->config.has_value() && numerics == Numerics::kWithinTolerance;
  return pinned ? pin->generation : std::max(pin->generation, winner_generation);
}

}  // namespace hone
