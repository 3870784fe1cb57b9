// Runs a search strategy on a recorded space, many times, and says how near the best it came.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hone {

struct ReplayOptions {
  std::string strategy;  // empty: model
  int seeds = 100;       // runs, from different seeds
  int threads = 1;       // runs at a time; the result does not depend on it
  // Proposals made before the result of the first is told, as compile workers ask ahead.
  int in_flight = 1;
  std::vector<int64_t> evaluations = {10, 25, 50, 100, 200, 400};  // ascending
};

// After this many evaluations.
struct ReplayPoint {
  int64_t evaluations = 0;
  double mean_fraction = 0;  // over the seeds, of best possible time ÷ best time found
  double worst_fraction = 0;
  // Nearest-rank percentile over the seeds: nine runs of ten were at least as good.
  double p10_fraction = 0;
};

struct ReplayResult {
  std::vector<ReplayPoint> points;
  double next_ms_mean = 0;  // of the processor's time that one proposal takes, with its observation
  double next_ms_max = 0;
};

// Each run sees the space under other names and with its parameters in another order, so that
// nothing about the file but values, validity and times can be used. A rejection costs an
// evaluation like any other. A run that covers the space keeps what it found; while it found
// nothing, its fraction is 0. INVALID_ARGUMENT names the option or what is wrong with the file.
absl::StatusOr<ReplayResult> ReplayFile(const std::string& path, const ReplayOptions& options);

}  // namespace hone
