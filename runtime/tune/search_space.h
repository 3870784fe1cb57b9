// A space as search strategies see it: a lattice of value indices, of which some points are valid.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/kernel/config_sampler.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/valid_points.h"

namespace hone {

class SearchSpace;
using SearchSpacePtr = std::shared_ptr<const SearchSpace>;

// Immutable, thread-safe.
class SearchSpace {
 public:
  struct Dimension {
    std::string name;
    std::vector<int64_t> values;  // in declaration order
  };
  using Random = std::mt19937_64;

  // The valid configs of `space`. Counts them if that can be done within a second or two.
  static SearchSpacePtr Of(const ConfigSpace& space);
  // Exactly these points.
  static SearchSpacePtr Listed(std::vector<Dimension> dimensions, std::vector<Point> points);

  const std::vector<Dimension>& dimensions() const { return dimensions_; }
  // The valid points by rank; nullptr where they cannot be counted. Then all there is are Contains
  // and Sample.
  const ValidPoints* points() const { return points_ ? &*points_ : nullptr; }
  // Exact, or an estimate when points() is nullptr.
  double size() const { return size_; }
  // "4096", "about 3.1e+12".
  std::string SizeText() const;

  bool Contains(const Point& point) const;
  // A valid point: uniformly where points are counted, nearly so elsewhere. nullopt if there is
  // none or none was found.
  std::optional<Point> Sample(Random& random) const;

  Config ConfigAt(const Point& point) const;
  // nullopt for a config with other tunables or values, or an invalid one.
  std::optional<Point> PointOf(const Config& config) const;

 private:
  SearchSpace() = default;

  std::vector<Dimension> dimensions_;
  std::optional<ValidPoints> points_;
  std::optional<ConfigSpace> space_;  // where points are not counted
  double size_ = 0;
};

}  // namespace hone
