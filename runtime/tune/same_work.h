// Candidates that are the same work under different configs: an unused tunable, a clamped one.
#pragma once

#include <string>
#include <vector>

#include "runtime/kernel/program.h"
#include "runtime/launch/launch_recipe.h"
#include "runtime/tune/candidate_builder.h"

namespace hone {

// Equal for candidates of one problem whose binaries hold the same code and whose launches are the
// same at each of `sizes`; what is measured of one holds for the others. Empty when a launch cannot
// be evaluated: then nothing is known to be the same.
std::string WorkIdentity(const BuiltCandidate& built, const std::vector<SizeBindings>& sizes,
                         const DeviceFacts& facts);

}  // namespace hone
