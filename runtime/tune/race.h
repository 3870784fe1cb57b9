// Interleaved sampling rounds over candidates, so that drift of clocks and load hits all alike.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

// Runs the rounds. A racer that fails gets its rejection and leaves. `round_done` may end the race
// early by returning false. Errors are the lane's.
absl::Status RunRace(Profiler& profiler, std::vector<Racer> racers,
                     const std::function<bool(int round)>& round_done);

}  // namespace hone
