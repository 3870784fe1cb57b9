// Random valid points of spaces too entangled for ValidPoints.
#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "runtime/kernel/config_space.h"
#include "runtime/kernel/valid_points.h"

namespace hone {

// Descends from the first tunable to the last, choosing uniformly among the values that the
// constraints known so far allow. A point is then drawn with the inverse of the product of those
// counts, which corrects for it (D. E. Knuth, Estimating the efficiency of backtrack programs,
// Mathematics of Computation 29, 1975). Thread-safe.
class ConfigSampler {
 public:
  using Random = std::mt19937_64;

  // `space` must outlive this object and not be PREBUILT.
  explicit ConfigSampler(const ConfigSpace* space) : space_(space) {}

  // A valid point, nearly uniformly: one of several descents, chosen by weight. nullopt when
  // thousands of descents found none.
  std::optional<Point> Sample(Random& random) const;
  // The mean weight of `descents` descents, dead ends counting 0: without bias, and without a bound
  // on its error.
  double EstimateCount(int descents, Random& random) const;

 private:
  struct Descent {
    Point point;
    double weight = 0;
  };
  std::optional<Descent> Descend(Random& random) const;

  const ConfigSpace* const space_;
};

}  // namespace hone
