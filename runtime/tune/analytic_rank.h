// A guess at a candidate's time from its launch alone, to leave out what is unlikely to win before
// anything is compiled.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/launch/device_fingerprint.h"
#include "runtime/tune/candidate_builder.h"

namespace hone {

// Nanoseconds; good for comparing candidates of one problem and for nothing else. The longest of
// three: the work's bytes at the device's memory bandwidth, the template's traffic at the bandwidth
// of the last-level cache, its flops at the device's arithmetic rate; times the imbalance of whole
// blocks over the multiprocessors, and longer where too few warps are resident to hide latency.
// Registers are not known before a compile and are left out.
double EstimateNs(const LaunchRecipe& recipe, const ResolvedLaunch& launch,
                  const SizeBindings& sizes, const DeviceInfo& device);

// What a ranking keeps.
struct Ranking {
  std::vector<Config> kept;      // the share with the best estimates, in the order given
  std::vector<Config> controls;  // some of the others, chosen at random, to see what was missed
  int64_t left_out = 0;          // the rest
};
// `share` above 0; at least one config is kept. `always`: kept whatever their estimate, as are
// configs whose launch cannot be evaluated.
absl::StatusOr<Ranking> RankConfigs(const CandidateBuilder& builder, const Problem& problem,
                                    const DeviceInfo& device, const std::vector<Config>& configs,
                                    const std::vector<Config>& always, double share, uint64_t seed);

}  // namespace hone
