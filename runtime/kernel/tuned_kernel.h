// A launchable kernel: an ordered list of variants.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/kernel/measurement.h"
#include "runtime/kernel/problem.h"
#include "runtime/kernel/program.h"
#include "runtime/launch/launch_recipe.h"

namespace hone {

struct KernelVariant {
  Config config;
  std::shared_ptr<const Artifact> artifact;
  LaunchRecipe recipe;                     // its guards decide whether this variant may run
  std::optional<Measurement> measurement;  // on the target; absent: never measured
};

// Launch takes the first variant whose guards hold; the last accepts every declared input wherever
// the template has such a config. Immutable once shared.
struct TunedKernel {
  std::string template_name;
  std::string template_digest;
  Values params;  // the problem asked for
  std::string architecture;
  std::vector<KernelVariant> variants;
  uint64_t generation = 0;
};

}  // namespace hone
