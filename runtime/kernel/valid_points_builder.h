// Builds the graph of ValidPoints.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/kernel/valid_points.h"

namespace hone {

class ValidPointsBuilder {
 public:
  explicit ValidPointsBuilder(const ValidPoints::Limits& limits);

  // nullopt: the limits did not suffice.
  std::optional<ValidPoints> FromConstraints(const ConfigSpace& space);
  // REQUIRES: sorted, without repetitions, all of one length.
  ValidPoints FromList(size_t dimensions, const std::vector<Point>& points);

 private:
  using Edges = std::vector<ValidPoints::Edge>;
  // Stands for what the constraints still to come can see of the values chosen so far. Two of a
  // million different states share all 128 bits with a probability of 10^-27.
  using State = std::pair<uint64_t, uint64_t>;
  static constexpr uint32_t kDead = ~uint32_t{0};

  void FindStates(const ConfigSpace& space);
  State StateAt(size_t depth, const int64_t* values) const;
  // The node for these values of the first `depth` tunables; kDead if nothing valid follows.
  uint32_t Explore(const ConfigSpace& space, size_t depth, std::vector<int64_t>& values);
  uint32_t ExploreList(const std::vector<Point>& points, size_t begin, size_t end, size_t depth);
  uint32_t NodeOf(Edges edges);
  ValidPoints Take(size_t dimensions, uint32_t root);

  const ValidPoints::Limits limits_;
  int64_t steps_ = 0;
  int64_t states_known_ = 0;
  bool exceeded_ = false;
  ValidPoints result_;
  std::vector<std::vector<SlotExpression>> states_;  // by depth
  std::vector<absl::flat_hash_map<State, uint32_t>> known_;
  absl::flat_hash_map<size_t, uint32_t> nodes_by_hash_;
};

}  // namespace hone
