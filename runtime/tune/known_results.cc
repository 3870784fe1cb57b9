#include "runtime/tune/known_results.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace hone {
namespace {

// How long a timeout, a crash or an unstable result keeps a candidate from being tried again.
constexpr absl::Duration kRejectionExpiry = absl::Hours(1);

bool Settled(const Measurement& measurement) {
  if (!measurement.invalidated.empty()) return false;
  if (!measurement.rejection) return !measurement.samples_ns.empty();
  if (!Expires(measurement.rejection->kind)) return true;
  const absl::Time at = absl::FromUnixMillis(measurement.measured_at_unix_ms);
  return absl::Now() - at < kRejectionExpiry;
}

}  // namespace

std::vector<Measurement> StandingResults(const TuneSpec& spec) {
  std::vector<Measurement> standing;
  for (const Measurement& known : spec.known) {
    const bool named =
        std::find(spec.only.begin(), spec.only.end(), known.config) != spec.only.end();
    if (named && !StaleReason(known, spec.present).empty()) continue;
    if (Settled(known)) standing.push_back(known);
  }
  return standing;
}

}  // namespace hone
