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
// Mathematics of Computation 29, 1975). Not thread-safe: the generator.
class ConfigSampler {
 public:
  // `space` must outlive this object and not be PREBUILT.
  ConfigSampler(const ConfigSpace* space, uint64_t seed);

  // A valid point, nearly uniformly: one of several descents, chosen by weight. nullopt when
  // thousands of descents found none.
  std::optional<Point> Sample();
  // The mean weight of `descents` descents, dead ends counting 0: without bias, and without a bound
  // on its error.
  double EstimateCount(int descents);

 private:
  struct Descent {
    Point point;
    double weight = 0;
  };
  std::optional<Descent> Descend();

  const ConfigSpace* const space_;
  std::mt19937_64 random_;
};

}  // namespace hone
