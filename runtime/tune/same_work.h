// Candidates that are the same work under different configs: an unused tunable, a clamped one.
#pragma once

#include <deque>
#include <map>
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

// The candidates of one tune by their work. Not thread-safe.
class Twins {
 public:
  // A candidate that is not measured, because another one is the same work.
  struct Twin {
    Config config;
    Config original;
    std::string artifact_sha256;  // its own
  };

  // Takes note of a candidate. nullptr for the first of its kind and where nothing is known.
  const Twin* Find(const BuiltCandidate& built, const std::vector<SizeBindings>& sizes,
                   const DeviceFacts& facts);
  const std::deque<Twin>& all() const { return twins_; }

 private:
  std::map<std::string, Config> first_;  // by identity
  std::deque<Twin> twins_;
};

}  // namespace hone
