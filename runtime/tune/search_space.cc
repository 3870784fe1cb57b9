#include "runtime/tune/search_space.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hone {
namespace {

// Enough for the order of magnitude, in milliseconds.
constexpr int kDescents = 2000;

}  // namespace

SearchSpacePtr SearchSpace::Of(const ConfigSpace& space) {
  std::shared_ptr<SearchSpace> result(new SearchSpace());
  for (const Tunable& tunable : space.tunables()) {
    result->dimensions_.push_back({.name = tunable.name, .values = tunable.values});
  }
  if (auto points = ValidPoints::Create(space); points.ok()) {
    result->size_ = static_cast<double>(points->size());
    result->points_ = *std::move(points);
  } else {
    result->space_ = space;
    Random random(0);
    result->size_ = ConfigSampler(&*result->space_).EstimateCount(kDescents, random);
  }
  return result;
}

SearchSpacePtr SearchSpace::Listed(std::vector<Dimension> dimensions, std::vector<Point> points) {
  std::shared_ptr<SearchSpace> result(new SearchSpace());
  result->points_ = ValidPoints::Listed(dimensions.size(), std::move(points));
  result->size_ = static_cast<double>(result->points_->size());
  result->dimensions_ = std::move(dimensions);
  return result;
}

std::string SearchSpace::SizeText() const {
  return points_ ? absl::StrCat(points_->size()) : absl::StrFormat("about %.2g", size_);
}

bool SearchSpace::Contains(const Point& point) const {
  if (points_) return points_->Contains(point);
  std::vector<int64_t> values;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    if (i >= point.size() || point[i] >= dimensions_[i].values.size()) return false;
    values.push_back(dimensions_[i].values[point[i]]);
  }
  for (int depth = -1; depth < static_cast<int>(values.size()); ++depth) {
    if (!space_->HoldsAtDepth(depth, values.data())) return false;
  }
  return true;
}

std::optional<Point> SearchSpace::Sample(Random& random) const {
  if (!points_) return ConfigSampler(&*space_).Sample(random);
  if (points_->size() == 0) return std::nullopt;
  std::uniform_int_distribution<int64_t> draw(0, points_->size() - 1);
  return points_->At(draw(random));
}

Config SearchSpace::ConfigAt(const Point& point) const {
  std::vector<std::pair<std::string, int64_t>> values;
  values.reserve(point.size());
  for (size_t i = 0; i < point.size(); ++i) {
    values.emplace_back(dimensions_[i].name, dimensions_[i].values[point[i]]);
  }
  return Config(std::move(values));
}

std::optional<Point> SearchSpace::PointOf(const Config& config) const {
  if (config.values().size() != dimensions_.size()) return std::nullopt;
  Point point;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    const auto& [name, value] = config.values()[i];
    const std::vector<int64_t>& values = dimensions_[i].values;
    const auto found = std::find(values.begin(), values.end(), value);
    if (name != dimensions_[i].name || found == values.end()) return std::nullopt;
    point.push_back(static_cast<uint16_t>(found - values.begin()));
  }
  if (!Contains(point)) return std::nullopt;
  return point;
}

}  // namespace hone
