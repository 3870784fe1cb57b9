// What every strategy must remember: seeds come first, and nothing is proposed twice.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "runtime/tune/search_space.h"

namespace hone {

// Not thread-safe. Memory grows with the points taken, not with the space.
class UnseenPoints {
 public:
  // Seeds that are not valid points of the space are passed over: a winner from elsewhere may be.
  UnseenPoints(SearchSpacePtr space, const std::vector<Config>& seeds, uint64_t seed);

  // The next seed not taken yet, taken now; nullopt when all are.
  std::optional<Point> TakeSeed();
  // A random point not taken yet, taken now; uniform where the space's points are counted. nullopt
  // when there is none left, or, in a space that is not counted, when none was found.
  std::optional<Point> TakeRandom();
  // As TakeRandom without taking it.
  std::optional<Point> DrawRandom();
  // False if the point was taken before. REQUIRES: a valid point.
  bool Take(const Point& point);
  bool IsTaken(const Point& point) const;

  const SearchSpace& space() const { return *space_; }
  SearchSpace::Random& random() { return random_; }
  int64_t taken() const { return taken_; }

 private:
  void ListTheRest();

  const SearchSpacePtr space_;
  std::vector<Point> seeds_;
  size_t next_seed_ = 0;
  SearchSpace::Random random_;
  int64_t taken_ = 0;
  absl::flat_hash_set<int64_t> taken_ranks_;  // where points are counted
  absl::flat_hash_set<Point> taken_points_;   // elsewhere
  // Once half of a counted space is taken: ranks that may still be open, shuffled.
  bool rest_listed_ = false;
  std::vector<int64_t> rest_;
};

}  // namespace hone
