// Which configs to evaluate, in which order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/measurement.h"

namespace hone {

// Not thread-safe.
class SearchStrategy {
 public:
  virtual ~SearchStrategy() = default;
  // The next config to evaluate, never one proposed before; nullopt when the space is covered.
  virtual std::optional<Config> Next() = 0;
  // Tells a result, in any order and possibly after further calls of Next.
  virtual void Observe(const Measurement& measurement) = 0;
};

// Every valid config in declaration order, `seeds` first.
std::unique_ptr<SearchStrategy> MakeExhaustive(const ConfigSpace& space, std::vector<Config> seeds);
// Valid configs drawn uniformly without replacement, `seeds` first.
std::unique_ptr<SearchStrategy> MakeRandom(const ConfigSpace& space, std::vector<Config> seeds,
                                           uint64_t seed);
// Exactly these, in this order.
std::unique_ptr<SearchStrategy> MakeFixed(std::vector<Config> configs);

// "exhaustive", "random", or empty: exhaustive when `evaluations_max` (0: no limit) covers the
// space, else random. INVALID_ARGUMENT lists the names.
absl::StatusOr<std::unique_ptr<SearchStrategy>> MakeStrategy(const std::string& name,
                                                             const ConfigSpace& space,
                                                             std::vector<Config> seeds,
                                                             int64_t evaluations_max,
                                                             uint64_t seed);

}  // namespace hone
