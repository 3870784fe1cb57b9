#include "runtime/tune/race.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// Device time one candidate may take in one round.
constexpr double kSliceNs = 50e6;

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

const Measurement* Best(const std::vector<Racer>& racers) {
  const Measurement* best = nullptr;
  for (const Racer& racer : racers) {
    if (best == nullptr || racer.measurement->median_ns < best->median_ns) {
      best = racer.measurement;
    }
  }
  return best;
}

void DropTheBeaten(Profiler& profiler, std::vector<Racer>& racers) {
  const Measurement* best = Best(racers);
  std::erase_if(racers, [&](const Racer& racer) {
    if (racer.always || !ClearlyBehind(*racer.measurement, *best)) return false;
    profiler.Forget(racer.id);
    return true;
  });
}

absl::Status SampleOnce(Profiler& profiler, Racer& racer) {
  Measurement& measurement = *racer.measurement;
  HONE_ASSIGN_OR_RETURN(
      SampleResult result,
      profiler.Sample(racer.id, SamplesFor(measurement.median_ns, kRoundSamples)));
  if (result.rejection) {
    measurement.rejection = std::move(result.rejection);
    measurement.samples_ns.clear();
  } else {
    measurement.samples_ns.insert(measurement.samples_ns.end(), result.samples_ns.begin(),
                                  result.samples_ns.end());
    measurement.clock_mhz = result.clock_mhz;
  }
  Summarise(measurement);
  return absl::OkStatus();
}

}  // namespace

int SamplesFor(double median_ns, int wanted) {
  if (median_ns <= 0) return wanted;
  return std::clamp(static_cast<int>(std::min(kSliceNs / median_ns, 1e6)), 1, wanted);
}

bool ClearlyBehind(const Measurement& measurement, const Measurement& best) {
  if (&measurement == &best || measurement.samples_ns.empty() || best.samples_ns.empty()) {
    return false;
  }
  return measurement.median_ns > 1.05 * best.median_ns &&
         Quantile(measurement.samples_ns, 0.25) > Quantile(best.samples_ns, 0.75);
}

absl::Status RunRace(Profiler& profiler, std::vector<Racer> racers,
                     const std::function<bool(int round)>& round_done) {
  for (int round = 0; round < kRounds; ++round) {
    std::erase_if(racers, [](const Racer& racer) { return racer.measurement->rejection; });
    if (racers.empty()) return absl::OkStatus();
    DropTheBeaten(profiler, racers);
    for (Racer& racer : racers) HONE_RETURN_IF_ERROR(SampleOnce(profiler, racer));
    if (!round_done(round)) return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace hone
