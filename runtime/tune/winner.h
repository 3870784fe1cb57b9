// The winner as a query over measurements.
#pragma once

#include <optional>
#include <vector>

#include "runtime/kernel/config_space.h"
#include "runtime/kernel/measurement.h"

namespace hone {

// Candidates within this share of the fastest count as tied with it; the first declared wins. One
// per cent is what medians of cold-cache samples repeat within on an otherwise idle GPU.
inline constexpr double kTieMargin = 0.01;
// The default config stays unless the winner beats it by more than noise: the larger of the tie
// margin and both spreads, the spreads counted up to this share, so that one noisy default cannot
// hide a clear win.
inline constexpr double kNoiseShareMax = 0.05;

// How much longer `a` takes than `b`. Finalists were compared in pairs, which is finer than their
// medians.
double TimeRatio(const Measurement& a, const Measurement& b);
// Two whose ratio is closer to 1 than this share count as equally fast.
double NoiseShare(const Measurement& a, const Measurement& b);

struct WinnerChoice {
  size_t winner = 0;                // indices into the measurements
  std::optional<size_t> runner_up;  // the fastest other one
};

struct WinnerQuery {
  // kSameBitsAsDefault: only those with the bits of the default config's measurement contend, so
  // none does where that is missing.
  Numerics numerics = Numerics::kWithinTolerance;
  // Timings that are stale under it contend only where all are: they are not to be compared with
  // present ones.
  Provenance present = {};
};

// Among the measurements with samples whose config is valid in `space`. nullopt if there is none.
// Deterministic: depends on medians, spreads, paired ratios and declaration order only. Where there
// was a final its members contend, by their paired ratios. A verified candidate is never beaten by
// an unverified one.
std::optional<WinnerChoice> ChooseWinner(const ConfigSpace& space,
                                         const std::vector<Measurement>& measurements,
                                         const WinnerQuery& query = {});

}  // namespace hone
