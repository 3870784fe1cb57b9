// Which configs to evaluate, in which order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/kernel/measurement.h"
#include "runtime/tune/search_space.h"

namespace hone {

// Depends on the space, the seeds, the seed and the observations only: the same calls give the same
// proposals. Not thread-safe.
class SearchStrategy {
 public:
  virtual ~SearchStrategy() = default;
  // The next config to evaluate: valid, and never one proposed or observed before. nullopt when the
  // space is covered.
  virtual std::optional<Config> Next() = 0;
  // Tells a result, in any order, possibly after further calls of Next, possibly of a config that
  // was never proposed. Rejections are results too.
  virtual void Observe(const Measurement& measurement) = 0;
  // True if later proposals depend on results, so that proposing far ahead of them is a loss.
  virtual bool learns() const { return false; }
};

// What ends a tune.
struct SearchBudget {
  int64_t evaluations_max = 0;  // 0: no limit
  bool other_limit = false;     // of time or patience
};

// Every valid config in declaration order, `seeds` first. REQUIRES: a counted space.
std::unique_ptr<SearchStrategy> MakeExhaustive(SearchSpacePtr space, std::vector<Config> seeds);
// Valid configs drawn uniformly without replacement, `seeds` first.
std::unique_ptr<SearchStrategy> MakeRandom(SearchSpacePtr space, std::vector<Config> seeds,
                                           uint64_t seed);
// Steps to the first better config that differs in one tunable; where there is none, starts again
// from a random one.
std::unique_ptr<SearchStrategy> MakeLocal(SearchSpacePtr space, std::vector<Config> seeds,
                                          uint64_t seed);
// Proposes what a model of the times seen so far expects to improve on the best most, among the
// neighbours of the best configs and random ones.
std::unique_ptr<SearchStrategy> MakeModelGuided(SearchSpacePtr space, std::vector<Config> seeds,
                                                uint64_t seed);

// "exhaustive", "random", "local", "model".
absl::Span<const absl::string_view> StrategyNames();
// "exhaustive, random, local or model", for messages.
std::string StrategyList();

// A strategy by name; empty: exhaustive when the budget covers the space, else model. A name that
// is unknown and a space that is too large for the budget are INVALID_ARGUMENT naming the field.
absl::StatusOr<std::unique_ptr<SearchStrategy>> MakeStrategy(const std::string& name,
                                                             SearchSpacePtr space,
                                                             std::vector<Config> seeds,
                                                             const SearchBudget& budget,
                                                             uint64_t seed);

}  // namespace hone
