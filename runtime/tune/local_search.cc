// Hill climbing by one tunable at a time, with random restarts.
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/tune/search_strategy.h"
#include "runtime/tune/unseen_points.h"

namespace hone {
namespace {

class LocalStrategy : public SearchStrategy {
 public:
  LocalStrategy(SearchSpacePtr space, const std::vector<Config>& seeds, uint64_t seed)
      : unseen_(std::move(space), seeds, seed) {}

  std::optional<Config> Next() override {
    std::optional<Point> point = unseen_.TakeSeed();
    while (!point && !steps_.empty()) {
      if (unseen_.Take(steps_.back())) point = steps_.back();
      steps_.pop_back();
    }
    if (!point) {
      point = unseen_.TakeRandom();
      // A summit, or nothing known yet: whatever comes back first is where to go on from.
      restarting_ = true;
    }
    if (!point) return std::nullopt;
    return unseen_.space().ConfigAt(*point);
  }

  void Observe(const Measurement& measurement) override {
    const std::optional<Point> point = unseen_.space().PointOf(measurement.config);
    if (!point) return;
    unseen_.Take(*point);
    if (measurement.rejection || measurement.samples_ns.empty()) return;
    // Late results of the last climb may still beat its summit: then it goes on.
    if (!restarting_ && at_ && measurement.median_ns >= at_ns_) return;
    restarting_ = false;
    at_ = *point;
    at_ns_ = measurement.median_ns;
    FindSteps();
  }

  bool learns() const override { return true; }

 private:
  // Valid neighbours of where we are, in random order.
  void FindSteps() {
    steps_.clear();
    const std::vector<SearchSpace::Dimension>& dimensions = unseen_.space().dimensions();
    for (size_t i = 0; i < dimensions.size(); ++i) {
      for (size_t value = 0; value < dimensions[i].values.size(); ++value) {
        Point neighbour = *at_;
        neighbour[i] = static_cast<uint16_t>(value);
        if (unseen_.space().Contains(neighbour) && !unseen_.IsTaken(neighbour)) {
          steps_.push_back(std::move(neighbour));
        }
      }
    }
    std::shuffle(steps_.begin(), steps_.end(), unseen_.random());
  }

  UnseenPoints unseen_;
  std::optional<Point> at_;
  double at_ns_ = 0;
  bool restarting_ = true;
  std::vector<Point> steps_;
};

}  // namespace

std::unique_ptr<SearchStrategy> MakeLocal(SearchSpacePtr space, std::vector<Config> seeds,
                                          uint64_t seed) {
  return std::make_unique<LocalStrategy>(std::move(space), seeds, seed);
}

}  // namespace hone
