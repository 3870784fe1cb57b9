#include "runtime/tune/additive_process.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/tune/expected_improvement.h"

namespace hone {
namespace {

// Priors, as medians and deviations of logarithms. Scales run from 0 to 1 and targets have variance
// 1, so these hold for any space: half the range, a factor of e either way; interactions of two and
// three tunables count half and a quarter of single effects; timings repeat within a per cent of
// the variance of a space, give or take a factor of four.
constexpr double kLength = 0.5, kLengthSpread = 1;
constexpr double kWeightSpread = 0.7;
constexpr double kOrderWeight[] = {1, 0.5, 0.25};
constexpr double kOrderSpread = 1;
constexpr double kNoise = 0.01, kNoiseSpread = 1.5;
// Keeps the matrix positive definite in floating point.
constexpr double kJitter = 1e-6;
// The bracket of a slice shrinks geometrically; twenty times is less than its precision.
constexpr int kShrinksMax = 20;
constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// Sums of the first three powers turned into weighted elementary symmetric sums (Newton and
// Girard): all single terms, all products of two, all products of three.
inline float Combine(const float* order, float p1, float p2, float p3) {
  const float e2 = 0.5f * (p1 * p1 - p2);
  const float e3 = (p1 * p1 * p1 - 3 * p1 * p2 + 2 * p3) * (1.0f / 6);
  return order[0] * p1 + order[1] * e2 + order[2] * e3;
}

uint16_t Distance(uint16_t a, uint16_t b) { return static_cast<uint16_t>(a < b ? b - a : a - b); }

// Turns the upper half of a symmetric matrix into the factor U of U'U, in place; false if it is not
// positive definite. Inner loops run along rows without carrying a sum, so that they become vector
// code.
bool Cholesky(std::vector<double>& matrix, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    double* pivot = &matrix[k * n];
    if (!(pivot[k] > 1e-12)) return false;
    const double inverse = 1 / std::sqrt(pivot[k]);
    for (size_t j = k; j < n; ++j) pivot[j] *= inverse;
    for (size_t i = k + 1; i < n; ++i) {
      double* row = &matrix[i * n];
      const double factor = pivot[i];
      for (size_t j = i; j < n; ++j) row[j] -= factor * pivot[j];
    }
  }
  return true;
}

}  // namespace

AdditiveProcess::AdditiveProcess(const SearchFeatures* features, int chains, uint64_t seed)
    : features_(features), random_(seed), chains_(static_cast<size_t>(chains)) {
  for (Chain& chain : chains_) {
    chain.state.resize(2 * features_->scales().size() + kOrders + 1);
    for (double& value : chain.state) value = Normal();
  }
}

double AdditiveProcess::Uniform() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }

AdditiveProcess::Hyperparameters AdditiveProcess::Decode(const Whitened& state) const {
  const std::vector<SearchFeatures::Scale>& scales = features_->scales();
  Hyperparameters result;
  float p1 = 0, p2 = 0, p3 = 0;
  for (size_t s = 0; s < scales.size(); ++s) {
    const double length = kLength * std::exp(kLengthSpread * state[s]);
    const double weight = std::exp(kWeightSpread * state[scales.size() + s]);
    std::vector<float> correlation;
    for (int level = 0; level < scales[s].levels; ++level) {
      const double distance = static_cast<double>(level) / (scales[s].levels - 1);
      correlation.push_back(static_cast<float>(weight * std::exp(-distance / length)));
    }
    const float own = correlation[0];
    p1 += own;
    p2 += own * own;
    p3 += own * own * own;
    result.correlation.push_back(std::move(correlation));
  }
  // Each order counts by its weight, however many terms it has.
  for (int i = 0; i < kOrders; ++i) {
    float unit[kOrders] = {};
    unit[i] = 1;
    const float terms = Combine(unit, p1, p2, p3);
    if (terms < 1e-6f) continue;  // fewer scales than the order
    const double weight =
        kOrderWeight[i] *
        std::exp(kOrderSpread * state[2 * scales.size() + static_cast<size_t>(i)]);
    result.order[i] = static_cast<float>(weight) / terms;
    result.variance += weight;
  }
  result.noise = kNoise * std::exp(kNoiseSpread * state.back()) + kJitter;
  return result;
}

void AdditiveProcess::Fit(const std::vector<const Point*>& points, std::vector<double> targets) {
  const size_t n = points.size();
  target_mean_ = std::accumulate(targets.begin(), targets.end(), 0.0) / static_cast<double>(n);
  double squares = 0;
  for (const double target : targets) squares += (target - target_mean_) * (target - target_mean_);
  target_deviation_ = std::sqrt(squares / static_cast<double>(n));
  if (!(target_deviation_ > 1e-9)) target_deviation_ = 1;
  for (double& target : targets) target = (target - target_mean_) / target_deviation_;
  targets_ = std::move(targets);
  levels_.clear();
  distances_.clear();
  for (const SearchFeatures::Scale& scale : features_->scales()) {
    std::vector<uint16_t> levels;
    for (const Point* point : points) levels.push_back(scale.level[(*point)[scale.dimension]]);
    std::vector<uint16_t> distances;
    distances.reserve(n * (n - 1) / 2);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < i; ++j) distances.push_back(Distance(levels[i], levels[j]));
    }
    levels_.push_back(std::move(levels));
    distances_.push_back(std::move(distances));
  }
  for (Chain& chain : chains_) Step(chain);
}

bool AdditiveProcess::Factorise(const Whitened& state, Chain& chain) const {
  const size_t n = targets_.size();
  chain.hyperparameters = Decode(state);
  const Hyperparameters& h = chain.hyperparameters;
  const size_t pairs = n * (n - 1) / 2;
  std::vector<float> p1(pairs), p2(pairs), p3(pairs);
  for (size_t s = 0; s < distances_.size(); ++s) {
    const float* correlation = h.correlation[s].data();
    const uint16_t* distances = distances_[s].data();
    for (size_t i = 0; i < pairs; ++i) {
      const float c = correlation[distances[i]];
      p1[i] += c;
      p2[i] += c * c;
      p3[i] += c * c * c;
    }
  }
  std::vector<double>& matrix = chain.factor;
  matrix.resize(n * n);
  for (size_t i = 0, pair = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j, ++pair) {
      matrix[j * n + i] = Combine(h.order, p1[pair], p2[pair], p3[pair]);
    }
    matrix[i * n + i] = h.variance + h.noise;
  }
  if (!Cholesky(matrix, n)) return false;
  chain.residual = targets_;
  chain.likelihood = 0;
  for (size_t i = 0; i < n; ++i) {
    const double* row = &matrix[i * n];
    const double value = chain.residual[i] /= row[i];
    for (size_t k = i + 1; k < n; ++k) chain.residual[k] -= row[k] * value;
    chain.likelihood -= 0.5 * value * value + std::log(row[i]);
  }
  return std::isfinite(chain.likelihood);
}

void AdditiveProcess::Step(Chain& chain) {
  // The data have changed since the last step.
  const double now = Factorise(chain.state, chain) ? chain.likelihood : kImpossible;
  const double height = now + std::log(1 - Uniform());
  Whitened direction(chain.state.size());
  for (double& value : direction) value = Normal();
  double angle = 2 * M_PI * Uniform();
  double low = angle - 2 * M_PI, high = angle;
  Whitened proposal(chain.state.size());
  for (int i = 0; i < kShrinksMax; ++i) {
    for (size_t k = 0; k < proposal.size(); ++k) {
      proposal[k] = chain.state[k] * std::cos(angle) + direction[k] * std::sin(angle);
    }
    if (Factorise(proposal, chain) && chain.likelihood > height) {
      chain.state = std::move(proposal);
      return;
    }
    (angle < 0 ? low : high) = angle;
    angle = low + Uniform() * (high - low);
  }
  // Stays where it was; should even that have failed, the prior's middle is always possible.
  if (Factorise(chain.state, chain)) return;
  std::fill(chain.state.begin(), chain.state.end(), 0.0);
  Factorise(chain.state, chain);
}

std::vector<double> AdditiveProcess::ExpectedImprovements(
    const std::vector<const Point*>& candidates, double best) const {
  const size_t n = targets_.size();
  const size_t count = candidates.size();
  std::vector<double> result(count);
  std::vector<uint16_t> levels(count * levels_.size());
  for (size_t s = 0; s < levels_.size(); ++s) {
    const SearchFeatures::Scale& scale = features_->scales()[s];
    for (size_t c = 0; c < count; ++c) {
      levels[s * count + c] = scale.level[(*candidates[c])[scale.dimension]];
    }
  }
  // Candidates are the inner index throughout: the compiler makes vector code of that.
  std::vector<float> solved(n * count), p1(count), p2(count), p3(count), mean(count),
      variance(count);
  for (const Chain& chain : chains_) {
    const Hyperparameters& h = chain.hyperparameters;
    std::fill(mean.begin(), mean.end(), 0.0f);
    std::fill(variance.begin(), variance.end(), static_cast<float>(h.variance));
    for (size_t i = 0; i < n; ++i) {
      std::fill(p1.begin(), p1.end(), 0.0f);
      std::fill(p2.begin(), p2.end(), 0.0f);
      std::fill(p3.begin(), p3.end(), 0.0f);
      for (size_t s = 0; s < levels_.size(); ++s) {
        const float* correlation = h.correlation[s].data();
        const uint16_t own = levels_[s][i];
        const uint16_t* other = &levels[s * count];
        for (size_t c = 0; c < count; ++c) {
          const float value = correlation[Distance(own, other[c])];
          p1[c] += value;
          p2[c] += value * value;
          p3[c] += value * value * value;
        }
      }
      float* row = &solved[i * count];
      for (size_t c = 0; c < count; ++c) row[c] = Combine(h.order, p1[c], p2[c], p3[c]);
      for (size_t k = 0; k < i; ++k) {
        const auto factor = static_cast<float>(chain.factor[k * n + i]);
        const float* earlier = &solved[k * count];
        for (size_t c = 0; c < count; ++c) row[c] -= factor * earlier[c];
      }
      const auto inverse = static_cast<float>(1 / chain.factor[i * n + i]);
      const auto residual = static_cast<float>(chain.residual[i]);
      for (size_t c = 0; c < count; ++c) {
        row[c] *= inverse;
        mean[c] += row[c] * residual;
        variance[c] -= row[c] * row[c];
      }
    }
    const double standardised_best = (best - target_mean_) / target_deviation_;
    for (size_t c = 0; c < count; ++c) {
      const double deviation = std::sqrt(std::max(0.0f, variance[c]));
      result[c] += ExpectedImprovement(mean[c], deviation, standardised_best);
    }
  }
  for (double& value : result) value *= target_deviation_ / static_cast<double>(chains_.size());
  return result;
}

}  // namespace hone
