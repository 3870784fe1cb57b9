// What models of a kernel's time see of a config.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/tune/search_space.h"

namespace hone {

// Tunables are numbers that hardware cares about in three ways, whatever they are called: by their
// order; by how often 2 divides them (full warps, aligned rows, whole banks); and by their products
// (threads of a block, elements of a tile). Immutable, thread-safe.
class SearchFeatures {
 public:
  // A whole-number scale of one dimension, for models that need distances.
  struct Scale {
    size_t dimension = 0;
    std::vector<uint16_t> level;  // of each value; 0 to levels - 1
    int levels = 0;
  };

  explicit SearchFeatures(const SearchSpace& space);

  // The order of every dimension with several values, then the alignment of those where it says
  // more than the order.
  const std::vector<Scale>& scales() const { return scales_; }
  // The levels of the scales, then logarithms of products of two dimensions.
  size_t count() const { return scales_.size() + products_.size(); }
  // Appends count() numbers.
  void AppendTo(const Point& point, std::vector<float>& row) const;

 private:
  std::vector<Scale> scales_;
  std::vector<std::pair<size_t, size_t>> products_;
  std::vector<std::vector<float>> log2_;  // of each value of each dimension, where all are positive
};

}  // namespace hone
