// How much below the best a normally distributed value is expected to come.
#pragma once

#include <algorithm>
#include <cmath>

namespace hone {

// The mean of max(0, best - Y) for Y with this mean and standard deviation (J. Mockus, 1975; D. R.
// Jones and others, Efficient global optimization of expensive black-box functions, 1998).
inline double ExpectedImprovement(double mean, double deviation, double best) {
  if (!(deviation > 1e-12)) return std::max(0.0, best - mean);
  const double z = (best - mean) / deviation;
  const double density = std::exp(-0.5 * z * z) * 0.3989422804014327;  // 1 / sqrt(2 pi)
  const double below = 0.5 * std::erfc(-z * 0.7071067811865476);       // 1 / sqrt(2)
  return std::max(0.0, (best - mean) * below + deviation * density);
}

}  // namespace hone
