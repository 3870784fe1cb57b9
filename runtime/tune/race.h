// Interleaved sampling rounds over candidates, so that drift of clocks and load hits all alike, and
// a paired comparison of those that end close together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/device/profiler.h"
#include "runtime/kernel/measurement.h"

namespace hone {

// Samples on a candidate's arrival, before it is known who contends. Three give a median that one
// outlier cannot move.
inline constexpr int kProbeSamples = 3;
// Rounds after all have arrived, and samples of each contender in a round: with the probe 3 + 6 *
// 3, enough for stable quartiles.
inline constexpr int kRounds = 6;
inline constexpr int kRoundSamples = 3;
// Rounds of a race that are sampled again because something disturbed them. Beyond, what they gave
// is taken and called unstable: a rule without a bound would never end on a busy device.
inline constexpr int kRepeatedRoundsMax = 4;

// Those this close to the fastest meet again in pairs, the fastest of them and the default config.
inline constexpr double kFinalistMargin = 0.03;
inline constexpr double kDefaultFinalistMargin = 0.10;
inline constexpr int kFinalistsMax = 6;
// Rounds of a final: as many as it takes to know every ratio well enough for the margin of ties.
inline constexpr int kFinalRoundsMin = 12;
inline constexpr int kFinalRoundsMax = 48;

struct Racer {
  int64_t id = 0;  // the profiler's candidate
  Measurement* measurement = nullptr;
  bool always = false;  // stays to the end (the default config)
};

// How many samples of one candidate fit a fixed slice of device time: slow kernels get fewer.
int SamplesFor(double median_ns, int wanted);

// True if `measurement` need not be sampled further: its first quartile lies above the third
// quartile of `best` and its median is more than 5 % behind. Quartiles as in Summarise.
bool ClearlyBehind(const Measurement& measurement, const Measurement& best);

// Runs the rounds and returns who is left. A racer that fails gets its rejection and leaves.
// `round_done` may end the race early by returning false. Errors are the lane's.
//
// The fastest is also sampled at the end of every round. A round in which it is not what it was
// in the others, or during which the device slowed itself down, is sampled again; the measurements
// of a round that stays so say in `unstable` why.
absl::StatusOr<std::vector<Racer>> RunRace(Profiler& profiler, std::vector<Racer> racers,
                                           const std::function<bool(int round)>& round_done);

// Those that may win: see the constants.
std::vector<Racer> Finalists(const std::vector<Racer>& racers);

// One sample of each in every round, in alternating order; each gets as `paired_ratio` the median
// over the rounds of its time over that of the fastest. What slows a whole round down cancels, so
// that this resolves what medians of separate samples do not. Ends once twice the standard error of
// every median is below half of kTieMargin, or with kFinalRoundsMax. Finalists of an earlier final
// keep their ratios to those who are not here: the new ratios are scaled to the first of them.
absl::Status RunFinal(Profiler& profiler, const std::vector<Racer>& finalists);

}  // namespace hone
