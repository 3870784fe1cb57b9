// The valid points of a space: counted, addressable by rank and sampled without being listed.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/kernel/config_space.h"

namespace hone {

// For each tunable, in declaration order, the index of its value.
using Point = std::vector<uint16_t>;

// A graph in layers, one for each tunable: a node stands for all choices of the tunables before it
// that leave the same continuations valid, and has an edge for each value that can be completed.
// Memory grows with the number of different situations, not with the number of points: a product
// needs one node a tunable, however many points it has. Immutable, thread-safe.
class ValidPoints {
 public:
  struct Limits {
    int64_t steps_max = 20'000'000;  // values tried; one to two seconds
    int64_t states_max = 2'000'000;  // 80 MB while building
    int64_t edges_max = 4'000'000;   // 64 MB
  };

  // OUT_OF_RANGE when the limits do not suffice: the constraints tie many tunables together in many
  // ways, or there are 2^62 points or more.
  static absl::StatusOr<ValidPoints> Create(const ConfigSpace& space, const Limits& limits);
  static absl::StatusOr<ValidPoints> Create(const ConfigSpace& space) { return Create(space, {}); }
  // Exactly these, in any order, repeated ones once. REQUIRES: all have `dimensions` indices.
  static ValidPoints Listed(size_t dimensions, std::vector<Point> points);

  int64_t size() const { return size_; }
  // The rank-th point in declaration order, the last tunable fastest.
  // REQUIRES: 0 <= rank < size().
  Point At(int64_t rank) const;
  // -1 for a point that is not among them.
  int64_t RankOf(const Point& point) const;
  bool Contains(const Point& point) const { return RankOf(point) >= 0; }

  size_t bytes() const { return edges_.size() * sizeof(Edge) + nodes_.size() * sizeof(Node); }

 private:
  friend class ValidPointsBuilder;
  struct Edge {
    int64_t before = 0;  // points behind the node's edges before this one
    uint32_t child = 0;
    uint16_t value = 0;
    friend bool operator==(const Edge&, const Edge&) = default;
  };
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edges = 0;
    int64_t points = 0;
  };
  // Of the points behind every tunable's last choice.
  static constexpr uint32_t kEnd = 0;

  ValidPoints() = default;

  size_t dimensions_ = 0;
  uint32_t root_ = kEnd;
  int64_t size_ = 0;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
};

}  // namespace hone
