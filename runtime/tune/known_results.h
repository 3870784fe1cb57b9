// What earlier tunes leave to be done.
#pragma once

#include <vector>

#include "runtime/kernel/measurement.h"
#include "runtime/tune/autotuner.h"

namespace hone {

// Of spec.known, what is not to be measured again because it was proposed again. Left out are
// rejections that have expired, what was invalidated, and stale timings of configs that the caller
// names.
std::vector<Measurement> StandingResults(const TuneSpec& spec);

}  // namespace hone
