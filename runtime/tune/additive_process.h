// A Gaussian process over log time that knows how kernels behave.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "runtime/tune/search_features.h"

namespace hone {

// A kernel's time is, roughly, a product of factors that depend on few tunables each, so its
// logarithm is a sum of functions of one, two and three tunables: an additive Gaussian process (D.
// Duvenaud, H. Nickisch, C. E. Rasmussen, Additive Gaussian processes, 2011). What one pair of
// values costs is then learnt once for all other tunables. Along one scale values correlate by
// exp(-distance), the roughest of the usual choices: occupancy and banks make times jump.
//
// Length scales, weights and noise are not fitted, which few observations cannot support, but
// sampled from their posterior by elliptical slice sampling (I. Murray, R. P. Adams, D. J. C.
// MacKay, 2010), one step of each chain with each fit. Not thread-safe.
class AdditiveProcess {
 public:
  // `features` must outlive this object.
  AdditiveProcess(const SearchFeatures* features, int chains, uint64_t seed);

  // Replaces the data. REQUIRES: not empty, as many targets as points, all finite. The cost grows
  // with the third power of their number.
  void Fit(const std::vector<const Point*>& points, std::vector<double> targets);
  // For each candidate, how much below `best` its target is expected to come, over all chains.
  // REQUIRES: fitted.
  std::vector<double> ExpectedImprovements(const std::vector<const Point*>& candidates,
                                           double best) const;

 private:
  static constexpr int kOrders = 3;

  // Independent standard normal variables a priori: two for each scale (length, weight), one for
  // each order of interaction, one for the noise.
  using Whitened = std::vector<double>;
  // What they stand for.
  struct Hyperparameters {
    std::vector<std::vector<float>> correlation;  // for each scale, by distance in levels
    float order[kOrders] = {};                    // factor of each elementary symmetric sum
    double variance = 0;                          // of the process at any point
    double noise = 0;
  };
  struct Chain {
    Whitened state;
    double likelihood = 0;
    Hyperparameters hyperparameters;
    std::vector<double> factor;    // upper Cholesky factor, row by row
    std::vector<double> residual;  // the targets solved by it
  };

  Hyperparameters Decode(const Whitened& state) const;
  // False when the matrix is not positive definite in floating point.
  bool Factorise(const Whitened& state, Chain& chain) const;
  void Step(Chain& chain);
  double Normal() { return normal_(random_); }
  double Uniform();

  const SearchFeatures* const features_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::vector<Chain> chains_;

  std::vector<std::vector<uint16_t>> levels_;     // for each scale, of each observation
  std::vector<std::vector<uint16_t>> distances_;  // for each scale, of each pair of observations
  std::vector<double> targets_;                   // standardised
  double target_mean_ = 0;
  double target_deviation_ = 1;
};

}  // namespace hone
