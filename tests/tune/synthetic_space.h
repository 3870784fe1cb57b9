// Spaces with known times, for tests of search strategies.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/tune/search_strategy.h"

namespace hone {

// The points of the product of `dimensions` for which `valid` holds.
inline SearchSpacePtr ProductSpace(
    std::vector<SearchSpace::Dimension> dimensions,
    const std::function<bool(const std::vector<int64_t>&)>& valid =
        [](const std::vector<int64_t>&) { return true; }) {
  std::vector<Point> points;
  Point point(dimensions.size(), 0);
  bool more = true;
  while (more) {
    std::vector<int64_t> values;
    for (size_t i = 0; i < point.size(); ++i) values.push_back(dimensions[i].values[point[i]]);
    if (valid(values)) points.push_back(point);
    more = false;
    for (size_t i = point.size(); i-- > 0 && !more;) {
      more = ++point[i] < dimensions[i].values.size();
      if (!more) point[i] = 0;
    }
  }
  return SearchSpace::Listed(std::move(dimensions), std::move(points));
}

inline Measurement Timed(const Config& config, double time_ns) {
  Measurement measurement;
  measurement.config = config;
  measurement.samples_ns = {time_ns};
  Summarise(measurement);
  return measurement;
}

inline Measurement Rejected(const Config& config, RejectionKind kind) {
  Measurement measurement;
  measurement.config = config;
  measurement.rejection = Rejection{.kind = kind};
  return measurement;
}

// Lets `strategy` propose up to `evaluations` configs and tells it each result after `in_flight`
// proposals; returns what it proposed.
inline std::vector<Config> Search(SearchStrategy& strategy,
                                  const std::function<Measurement(const Config&)>& measure,
                                  int evaluations, size_t in_flight = 1) {
  std::vector<Config> proposed;
  std::deque<Measurement> waiting;
  while (static_cast<int>(proposed.size()) < evaluations) {
    const std::optional<Config> config = strategy.Next();
    if (!config) break;
    proposed.push_back(*config);
    waiting.push_back(measure(*config));
    if (waiting.size() < in_flight) continue;
    strategy.Observe(waiting.front());
    waiting.pop_front();
  }
  return proposed;
}

}  // namespace hone
