#include "runtime/tune/extra_trees.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace hone {
namespace {

// Share of the features tried for a split: most, because there are few of them and half matter.
constexpr double kFeatureShare = 0.6;
// A balanced tree over a thousand rows has ten levels; random cuts need two to three times that.
constexpr int kDepthMax = 32;

}  // namespace

ExtraTrees::ExtraTrees(int trees, uint64_t seed)
    : random_(seed), trees_(static_cast<size_t>(trees)) {}

double ExtraTrees::Uniform() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }

void ExtraTrees::Fit(const Data& data, int regrow) {
  const size_t count =
      fitted_ ? std::min(static_cast<size_t>(regrow), trees_.size()) : trees_.size();
  fitted_ = true;
  targets_ = data.targets;
  failed_ = data.failed;
  columns_ = data.columns;
  features_.resize(columns_);
  std::iota(features_.begin(), features_.end(), 0u);
  values_.resize(data.rows.size());
  for (size_t row = 0; row < targets_.size(); ++row) {
    for (size_t column = 0; column < columns_; ++column) {
      values_[column * targets_.size() + row] = data.rows[row * columns_ + column];
    }
  }
  for (size_t i = 0; i < count; ++i) {
    Grow(trees_[next_]);
    next_ = (next_ + 1) % trees_.size();
  }
}

void ExtraTrees::Grow(Tree& tree) {
  order_.resize(targets_.size());
  std::iota(order_.begin(), order_.end(), 0u);
  tree.assign(1, Node());
  GrowNode(tree, 0, 0, order_.size(), 0);
}

void ExtraTrees::GrowNode(Tree& tree, uint32_t index, size_t begin, size_t end, int depth) {
  double sum = 0, succeeded = 0;
  for (size_t i = begin; i < end; ++i) {
    if (failed_[order_[i]] != 0) continue;
    sum += targets_[order_[i]];
    succeeded += 1;
  }
  tree[index].value = static_cast<float>(succeeded > 0 ? sum / succeeded : 0);
  tree[index].success = static_cast<float>(succeeded / static_cast<double>(end - begin));
  if (end - begin < 2 || depth == kDepthMax) return;
  const Split split = BestSplit(begin, end);
  if (split.feature < 0) return;
  const float* column = &values_[static_cast<size_t>(split.feature) * targets_.size()];
  uint32_t* const first = order_.data();
  const uint32_t* const middle = std::partition(
      first + begin, first + end, [&](uint32_t row) { return column[row] <= split.cut; });
  const auto cut = static_cast<size_t>(middle - first);
  const auto child = static_cast<uint32_t>(tree.size());
  tree[index].feature = split.feature;
  tree[index].child = child;
  tree[index].cut = split.cut;
  tree.resize(tree.size() + 2);
  GrowNode(tree, child, begin, cut, depth + 1);
  GrowNode(tree, child + 1, cut, end, depth + 1);
}

// The largest reduction of the squared error among random cuts; none when all targets are equal or
// no feature tells the rows apart.
ExtraTrees::Split ExtraTrees::BestSplit(size_t begin, size_t end) {
  const double rows = static_cast<double>(end - begin);
  double sum = 0, squares = 0;
  for (size_t i = begin; i < end; ++i) {
    const double target = targets_[order_[i]];
    sum += target;
    squares += target * target;
  }
  Split best;
  if (squares - sum * sum / rows < 1e-9 * squares + 1e-12) return best;
  const auto wanted = static_cast<size_t>(std::ceil(kFeatureShare * static_cast<double>(columns_)));
  size_t tried = 0;
  for (size_t i = 0; i < columns_ && tried < wanted; ++i) {
    std::swap(features_[i], features_[i + random_() % (columns_ - i)]);
    const float* column = &values_[features_[i] * targets_.size()];
    float low = column[order_[begin]], high = low;
    for (size_t k = begin + 1; k < end; ++k) {
      const float value = column[order_[k]];
      low = std::min(low, value);
      high = std::max(high, value);
    }
    if (!(low < high)) continue;
    ++tried;
    // Rounding must not make the cut `high`, which would leave nothing on the right.
    const float cut =
        std::min(static_cast<float>(low + (high - low) * Uniform()), std::nextafter(high, low));
    double left_sum = 0, left = 0;
    for (size_t k = begin; k < end; ++k) {
      const uint32_t row = order_[k];
      const double is_left = column[row] <= cut ? 1 : 0;
      left_sum += is_left * targets_[row];
      left += is_left;
    }
    const double right_sum = sum - left_sum;
    const double gain =
        left_sum * left_sum / left + right_sum * right_sum / (rows - left) - sum * sum / rows;
    if (best.feature < 0 || gain > best.gain) {
      best = {.feature = static_cast<int>(features_[i]), .cut = cut, .gain = gain};
    }
  }
  return best;
}

std::vector<ExtraTrees::Prediction> ExtraTrees::Predict(const std::vector<float>& rows) const {
  const size_t count = columns_ > 0 ? rows.size() / columns_ : 0;
  std::vector<double> weights(count), sums(count), squares(count);
  // One tree for all rows, then the next: a tree fits the processor's first cache.
  for (const Tree& tree : trees_) {
    for (size_t i = 0; i < count; ++i) {
      const float* row = &rows[i * columns_];
      const Node* node = tree.data();
      while (node->feature >= 0) {
        node = &tree[node->child + (row[node->feature] <= node->cut ? 0 : 1)];
      }
      const double value = node->value, weight = node->success;
      weights[i] += weight;
      sums[i] += weight * value;
      squares[i] += weight * value * value;
    }
  }
  std::vector<Prediction> predictions;
  predictions.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    Prediction prediction;
    if (weights[i] > 0) {
      prediction.success = weights[i] / static_cast<double>(trees_.size());
      prediction.mean = sums[i] / weights[i];
      prediction.deviation =
          std::sqrt(std::max(0.0, squares[i] / weights[i] - prediction.mean * prediction.mean));
    }
    predictions.push_back(prediction);
  }
  return predictions;
}

}  // namespace hone
