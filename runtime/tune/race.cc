#include "runtime/tune/race.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/tune/winner.h"

namespace hone {
namespace {

// Device time one candidate may take in one round, and all finalists together.
constexpr double kSliceNs = 50e6;
constexpr double kFinalNs = 2e9;
constexpr int kSlowFinalRounds = 3;
// How far the fastest may be from what it was before a round counts as disturbed: this share, or
// this many of its own spreads.
constexpr double kDisturbedShare = 0.05;
constexpr double kDisturbedSpreads = 4;

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

const Racer* Fastest(const std::vector<Racer>& racers) {
  const auto it =
      std::min_element(racers.begin(), racers.end(), [](const Racer& a, const Racer& b) {
        return a.measurement->median_ns < b.measurement->median_ns;
      });
  return it == racers.end() ? nullptr : &*it;
}

void DropTheRejected(std::vector<Racer>& racers) {
  std::erase_if(racers, [](const Racer& racer) { return racer.measurement->rejection; });
}

void DropTheBeaten(Profiler& profiler, std::vector<Racer>& racers) {
  const Racer* best = Fastest(racers);
  if (best == nullptr) return;
  const Measurement& fastest = *best->measurement;
  std::erase_if(racers, [&](const Racer& racer) {
    if (racer.always || !ClearlyBehind(*racer.measurement, fastest)) return false;
    profiler.Forget(racer.id);
    return true;
  });
}

// The samples of one round, before they are believed.
struct Round {
  std::vector<std::pair<Measurement*, SampleResult>> results;
  std::string disturbance;  // why they should not be; empty if they should
};

class RoundSampler {
 public:
  explicit RoundSampler(Profiler& profiler) : profiler_(profiler) {}

  absl::Status Run(const std::vector<Racer>& racers) {
    while (true) {
      HONE_ASSIGN_OR_RETURN(Round round, Sample(racers));
      if (!round.disturbance.empty() && repeats_ < kRepeatedRoundsMax) {
        ++repeats_;
        continue;
      }
      Take(round);
      return absl::OkStatus();
    }
  }

 private:
  absl::StatusOr<Round> Sample(const std::vector<Racer>& racers) {
    Round round;
    const Racer& pace = *Fastest(racers);
    double begin_ns = 0;
    for (const Racer& racer : racers) {
      const int count = SamplesFor(racer.measurement->median_ns, kRoundSamples);
      HONE_ASSIGN_OR_RETURN(SampleResult result, profiler_.Sample(racer.id, count));
      if (!result.rejection && !result.slowed_down.empty()) {
        round.disturbance = absl::StrCat("the device slowed itself down: ", result.slowed_down);
      }
      if (racer.id == pace.id && !result.rejection) begin_ns = Quantile(result.samples_ns, 0.5);
      round.results.emplace_back(racer.measurement, std::move(result));
    }
    if (racers.size() == 1 || begin_ns == 0) return round;
    const int count = SamplesFor(pace.measurement->median_ns, kRoundSamples);
    HONE_ASSIGN_OR_RETURN(SampleResult again, profiler_.Sample(pace.id, count));
    if (again.rejection) {
      round.results.emplace_back(pace.measurement, std::move(again));
      return round;
    }
    Compare(*pace.measurement, begin_ns, Quantile(again.samples_ns, 0.5), round);
    return round;
  }

  // `begin_ns` and `end_ns`: of the fastest, within this round.
  void Compare(const Measurement& pace, double begin_ns, double end_ns, Round& round) {
    const double allowed = std::max(kDisturbedShare, kDisturbedSpreads * pace.spread);
    double usual_ns = begin_ns;
    if (!pace_ratios_.empty()) usual_ns = Quantile(pace_ratios_, 0.5) * pace.median_ns;
    for (const double now_ns : {begin_ns, end_ns}) {
      const double off = now_ns / usual_ns - 1;
      if (std::abs(off) <= allowed || !round.disturbance.empty()) continue;
      round.disturbance = absl::StrCat("the fastest took ", std::lround(std::abs(off) * 100), " % ",
                                       off > 0 ? "longer" : "less", " than in other rounds");
    }
    round_pace_ = (begin_ns + end_ns) / 2 / pace.median_ns;
  }

  void Take(Round& round) {
    if (round.disturbance.empty() && round_pace_ > 0) pace_ratios_.push_back(round_pace_);
    for (auto& [measurement, result] : round.results) {
      if (result.rejection) {
        measurement->rejection = std::move(result.rejection);
        measurement->samples_ns.clear();
      } else if (!measurement->rejection) {
        measurement->samples_ns.insert(measurement->samples_ns.end(), result.samples_ns.begin(),
                                       result.samples_ns.end());
        measurement->clock_mhz = result.clock_mhz;
        measurement->memory_clock_mhz = result.memory_clock_mhz;
        measurement->other_processes =
            std::max(measurement->other_processes, result.other_processes);
        if (!round.disturbance.empty()) measurement->unstable = round.disturbance;
      }
      Summarise(*measurement);
    }
  }

  Profiler& profiler_;
  int repeats_ = 0;
  double round_pace_ = 0;
  std::vector<double> pace_ratios_;  // of undisturbed rounds, over the median at that time
};

// Whether the median of a finalist's ratios is known well enough. Its standard error is 1.2533
// standard deviations over the root of the number for normal errors (Kendall and Stuart, The
// Advanced Theory of Statistics, vol. 1), a standard deviation being 1/1.349 of the quartiles'
// distance.
bool IsResolved(const std::vector<double>& ratios) {
  if (ratios.empty()) return true;
  const double deviation = (Quantile(ratios, 0.75) - Quantile(ratios, 0.25)) / 1.349;
  const double error = 1.2533 * deviation / std::sqrt(static_cast<double>(ratios.size()));
  return 2 * error <= kTieMargin / 2;
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

absl::StatusOr<std::vector<Racer>> RunRace(Profiler& profiler, std::vector<Racer> racers,
                                           const std::function<bool(int round)>& round_done) {
  RoundSampler sampler(profiler);
  for (int round = 0; round < kRounds; ++round) {
    DropTheRejected(racers);
    DropTheBeaten(profiler, racers);
    if (racers.empty()) break;
    HONE_RETURN_IF_ERROR(sampler.Run(racers));
    if (!round_done(round)) break;
  }
  DropTheRejected(racers);
  return racers;
}

std::vector<Racer> Finalists(const std::vector<Racer>& racers) {
  std::vector<Racer> ranked = racers;
  DropTheRejected(ranked);
  std::stable_sort(ranked.begin(), ranked.end(), [](const Racer& a, const Racer& b) {
    return a.measurement->median_ns < b.measurement->median_ns;
  });
  std::vector<Racer> finalists;
  for (const Racer& racer : ranked) {
    const double behind = racer.measurement->median_ns / ranked.front().measurement->median_ns - 1;
    const bool close = behind <= kFinalistMargin && finalists.size() < kFinalistsMax;
    if (close || (racer.always && behind <= kDefaultFinalistMargin)) finalists.push_back(racer);
  }
  return finalists;
}

absl::Status RunFinal(Profiler& profiler, const std::vector<Racer>& finalists) {
  if (finalists.size() < 2) return absl::OkStatus();
  double round_ns = 0;
  for (const Racer& racer : finalists) round_ns += racer.measurement->median_ns;
  const int rounds = std::clamp(static_cast<int>(kFinalNs / std::max(round_ns, 1.0)),
                                kSlowFinalRounds, kFinalRoundsMax);
  std::vector<std::vector<double>> ratios(finalists.size());
  for (int round = 0; round < rounds; ++round) {
    if (round >= kFinalRoundsMin && std::all_of(ratios.begin(), ratios.end(), IsResolved)) break;
    std::vector<double> times_ns(finalists.size());
    for (size_t i = 0; i < finalists.size(); ++i) {
      const size_t turn = round % 2 == 0 ? i : finalists.size() - 1 - i;
      Measurement& measurement = *finalists[turn].measurement;
      if (measurement.rejection) continue;
      HONE_ASSIGN_OR_RETURN(SampleResult result, profiler.Sample(finalists[turn].id, 1));
      if (result.rejection) {
        measurement.rejection = std::move(result.rejection);
        measurement.samples_ns.clear();
        Summarise(measurement);
        continue;
      }
      times_ns[turn] = result.samples_ns.front();
      measurement.samples_ns.push_back(times_ns[turn]);
    }
    if (times_ns.front() <= 0) continue;
    for (size_t i = 0; i < finalists.size(); ++i) {
      if (times_ns[i] > 0) ratios[i].push_back(times_ns[i] / times_ns.front());
    }
  }
  double scale = 0;
  for (size_t i = 0; i < finalists.size() && scale == 0; ++i) {
    const double before = finalists[i].measurement->paired_ratio;
    if (before > 0 && !ratios[i].empty()) scale = before / Quantile(ratios[i], 0.5);
  }
  for (size_t i = 0; i < finalists.size(); ++i) {
    Measurement& measurement = *finalists[i].measurement;
    if (measurement.rejection) continue;
    Summarise(measurement);
    if (ratios[i].empty()) continue;
    measurement.paired_ratio = Quantile(ratios[i], 0.5) * (scale > 0 ? scale : 1);
  }
  return absl::OkStatus();
}

}  // namespace hone
