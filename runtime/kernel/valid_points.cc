#include "runtime/kernel/valid_points.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/kernel/valid_points_builder.h"

namespace hone {
namespace {

std::vector<Point> PrebuiltPoints(const ConfigSpace& space) {
  std::vector<Point> points;
  for (const Config& config : space.prebuilt()) {
    if (!space.Validate(config).ok()) continue;
    Point point;
    for (size_t i = 0; i < space.tunables().size(); ++i) {
      const std::vector<int64_t>& values = space.tunables()[i].values;
      const auto found = std::find(values.begin(), values.end(), config.values()[i].second);
      point.push_back(static_cast<uint16_t>(found - values.begin()));
    }
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace

absl::StatusOr<ValidPoints> ValidPoints::Create(const ConfigSpace& space, const Limits& limits) {
  if (space.is_prebuilt()) return Listed(space.tunables().size(), PrebuiltPoints(space));
  std::optional<ValidPoints> points = ValidPointsBuilder(limits).FromConstraints(space);
  if (!points) {
    return absl::OutOfRangeError(absl::StrCat("the valid configs of a space of ",
                                              space.product_size(), " points cannot be counted in ",
                                              limits.steps_max, " steps, ", limits.states_max,
                                              " states and ", limits.edges_max, " edges"));
  }
  return *std::move(points);
}

ValidPoints ValidPoints::Listed(size_t dimensions, std::vector<Point> points) {
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return ValidPointsBuilder({}).FromList(dimensions, points);
}

Point ValidPoints::At(int64_t rank) const {
  Point point(dimensions_);
  uint32_t node = root_;
  for (size_t i = 0; i < dimensions_; ++i) {
    const Edge* begin = &edges_[nodes_[node].first_edge];
    const Edge* end = begin + nodes_[node].edges;
    const Edge* edge =
        std::upper_bound(begin, end, rank, [](int64_t r, const Edge& e) { return r < e.before; }) -
        1;
    point[i] = edge->value;
    rank -= edge->before;
    node = edge->child;
  }
  return point;
}

int64_t ValidPoints::RankOf(const Point& point) const {
  if (size_ == 0 || point.size() != dimensions_) return -1;
  int64_t rank = 0;
  uint32_t node = root_;
  for (const uint16_t value : point) {
    const Edge* begin = &edges_[nodes_[node].first_edge];
    const Edge* end = begin + nodes_[node].edges;
    const Edge* edge =
        std::lower_bound(begin, end, value, [](const Edge& e, uint16_t v) { return e.value < v; });
    if (edge == end || edge->value != value) return -1;
    rank += edge->before;
    node = edge->child;
  }
  return rank;
}

}  // namespace hone
