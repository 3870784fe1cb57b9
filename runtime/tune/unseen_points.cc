#include "runtime/tune/unseen_points.h"

#include <algorithm>
#include <utility>

namespace hone {
namespace {

// Draws without an open point after which a space that is not counted passes for covered. Such a
// space has millions of points; a tune takes thousands.
constexpr int kDrawsMax = 100;

}  // namespace

UnseenPoints::UnseenPoints(SearchSpacePtr space, const std::vector<Config>& seeds, uint64_t seed)
    : space_(std::move(space)), random_(seed) {
  for (const Config& config : seeds) {
    if (std::optional<Point> point = space_->PointOf(config)) seeds_.push_back(*std::move(point));
  }
}

std::optional<Point> UnseenPoints::TakeSeed() {
  while (next_seed_ < seeds_.size()) {
    const Point& point = seeds_[next_seed_++];
    if (Take(point)) return point;
  }
  return std::nullopt;
}

std::optional<Point> UnseenPoints::DrawRandom() {
  const ValidPoints* points = space_->points();
  if (points == nullptr) {
    for (int i = 0; i < kDrawsMax; ++i) {
      std::optional<Point> point = space_->Sample(random_);
      if (!point) return std::nullopt;
      if (!IsTaken(*point)) return point;
    }
    return std::nullopt;
  }
  // While at most half are taken, two draws find an open one on average.
  while (taken_ * 2 <= points->size() && points->size() > 0) {
    Point point = *space_->Sample(random_);
    if (!IsTaken(point)) return point;
  }
  if (!rest_listed_) ListTheRest();
  while (!rest_.empty() && taken_ranks_.contains(rest_.back())) rest_.pop_back();
  if (rest_.empty()) return std::nullopt;
  // Taken ones may hide anywhere; the last is open, so this ends.
  while (true) {
    std::uniform_int_distribution<size_t> draw(0, rest_.size() - 1);
    const size_t chosen = draw(random_);
    if (!taken_ranks_.contains(rest_[chosen])) return points->At(rest_[chosen]);
    std::swap(rest_[chosen], rest_.back());
    rest_.pop_back();
  }
}

void UnseenPoints::ListTheRest() {
  rest_listed_ = true;
  for (int64_t rank = 0; rank < space_->points()->size(); ++rank) {
    if (!taken_ranks_.contains(rank)) rest_.push_back(rank);
  }
}

std::optional<Point> UnseenPoints::TakeRandom() {
  std::optional<Point> point = DrawRandom();
  if (point) Take(*point);
  return point;
}

bool UnseenPoints::Take(const Point& point) {
  const bool fresh = space_->points() != nullptr
                         ? taken_ranks_.insert(space_->points()->RankOf(point)).second
                         : taken_points_.insert(point).second;
  taken_ += fresh ? 1 : 0;
  return fresh;
}

bool UnseenPoints::IsTaken(const Point& point) const {
  return space_->points() != nullptr ? taken_ranks_.contains(space_->points()->RankOf(point))
                                     : taken_points_.contains(point);
}

}  // namespace hone
