#include "runtime/tune/search_features.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace hone {
namespace {

// Divisibility by more than 128 tells nothing about a GPU: that is a full row of the memory bus.
constexpr int kAlignmentMax = 7;
// Bounds what fitting costs in spaces of many tunables. Products of the first dimensions come
// first.
constexpr size_t kProductsMax = 64;

bool AllPositive(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t value) { return value > 0; });
}

bool AllPowersOfTwo(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t value) {
    return value > 0 && std::has_single_bit(static_cast<uint64_t>(value));
  });
}

SearchFeatures::Scale OrderOf(size_t dimension, const std::vector<int64_t>& values) {
  std::vector<int64_t> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  SearchFeatures::Scale scale{
      .dimension = dimension, .level = {}, .levels = static_cast<int>(values.size())};
  for (const int64_t value : values) {
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
    scale.level.push_back(static_cast<uint16_t>(place));
  }
  return scale;
}

SearchFeatures::Scale AlignmentOf(size_t dimension, const std::vector<int64_t>& values) {
  SearchFeatures::Scale scale{.dimension = dimension, .level = {}, .levels = 1};
  for (const int64_t value : values) {
    const int twos = std::min(kAlignmentMax, std::countr_zero(static_cast<uint64_t>(value)));
    scale.level.push_back(static_cast<uint16_t>(twos));
    scale.levels = std::max(scale.levels, twos + 1);
  }
  return scale;
}

}  // namespace

SearchFeatures::SearchFeatures(const SearchSpace& space) {
  const std::vector<SearchSpace::Dimension>& dimensions = space.dimensions();
  std::vector<size_t> factors;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const std::vector<int64_t>& values = dimensions[i].values;
    log2_.emplace_back();
    if (values.size() < 2) continue;
    scales_.push_back(OrderOf(i, values));
    // Flags are no factors.
    if (values.size() < 3 || !AllPositive(values)) continue;
    factors.push_back(i);
    for (const int64_t value : values) {
      log2_.back().push_back(static_cast<float>(std::log2(static_cast<double>(value))));
    }
  }
  for (const size_t i : factors) {
    // Of powers of two, the order says it.
    if (AllPowersOfTwo(dimensions[i].values)) continue;
    Scale alignment = AlignmentOf(i, dimensions[i].values);
    if (alignment.levels > 1) scales_.push_back(std::move(alignment));
  }
  for (size_t a = 0; a < factors.size(); ++a) {
    for (size_t b = a + 1; b < factors.size() && products_.size() < kProductsMax; ++b) {
      products_.emplace_back(factors[a], factors[b]);
    }
  }
}

void SearchFeatures::AppendTo(const Point& point, std::vector<float>& row) const {
  for (const Scale& scale : scales_) row.push_back(scale.level[point[scale.dimension]]);
  for (const auto& [a, b] : products_) row.push_back(log2_[a][point[a]] + log2_[b][point[b]]);
}

}  // namespace hone
