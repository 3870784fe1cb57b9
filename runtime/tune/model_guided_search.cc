// The default strategy: two models of different nature, and the neighbourhood of the best.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/tune/additive_process.h"
#include "runtime/tune/expected_improvement.h"
#include "runtime/tune/extra_trees.h"
#include "runtime/tune/search_features.h"
#include "runtime/tune/search_strategy.h"
#include "runtime/tune/unseen_points.h"

namespace hone {
namespace {

// Points proposed without a model, far apart from each other. Few: with so little to go by, the
// models explore anyway.
constexpr size_t kInitialPoints = 6;
// Random points that the next initial one is chosen from, for its distance to all others.
constexpr int kInitialDraws = 10;

constexpr int kTrees = 64;
constexpr int kTreesRegrown = 8;  // with each proposal
constexpr int kChains = 2;

// Observations that the models learn from: the best ones, because that is where the next proposals
// lie, and some of the others, to keep them away from there. They bound the cost of a proposal.
constexpr size_t kProcessObservations = 100;
constexpr size_t kTreeObservations = 800;
constexpr double kBestShare = 0.6;

// Candidates of one proposal that the trees look at; what they think most of, the process looks at.
constexpr size_t kRandomCandidates = 600;
// In spaces whose points are not counted a draw is dear: a few are added each time, and wait.
constexpr size_t kFreshCandidates = 16;
constexpr size_t kNeighbourhoods = 5;      // of the best points: steps in one tunable,
constexpr size_t kStepsPerDimension = 32;  // at most so many in each
constexpr size_t kPairNeighbourhoods = 2;  // and steps in two tunables,
constexpr int kPairSteps = 150;            // of which so many are drawn
constexpr size_t kShortlist = 150;
// Added to expected improvements of logarithms, so that one of them decides where the other is 0.
constexpr double kFloor = 1e-12;

struct Observation {
  Point point;
  bool failed = false;
  double log_ns = 0;  // not failed
};

class ModelGuidedStrategy : public SearchStrategy {
 public:
  ModelGuidedStrategy(SearchSpacePtr space, const std::vector<Config>& seeds, uint64_t seed)
      : unseen_(space, seeds, seed),
        features_(*space),
        trees_(kTrees, unseen_.random()()),
        process_(&features_, kChains, unseen_.random()()) {}

  std::optional<Config> Next() override {
    std::optional<Point> point = Propose();
    if (!point) return std::nullopt;
    unseen_.Take(*point);
    pending_.emplace(*point, expected_);
    return unseen_.space().ConfigAt(*point);
  }

  void Observe(const Measurement& measurement) override {
    std::optional<Point> point = unseen_.space().PointOf(measurement.config);
    if (!point) return;
    unseen_.Take(*point);
    pending_.erase(*point);
    Observation observation{.point = *point, .failed = true};
    if (!measurement.rejection && measurement.median_ns > 0 &&
        std::isfinite(measurement.median_ns)) {
      observation.failed = false;
      observation.log_ns = std::log(measurement.median_ns);
    }
    // Told again, a result replaces the earlier one.
    const auto [known, fresh] = index_.emplace(*std::move(point), observations_.size());
    if (fresh) {
      observations_.push_back(std::move(observation));
    } else {
      observations_[known->second] = std::move(observation);
    }
    FindBest();
  }

  bool learns() const override { return true; }

 private:
  std::optional<Point> Propose() {
    expected_.reset();
    if (std::optional<Point> point = unseen_.TakeSeed()) return point;
    // Nothing is known to be good while everything failed: then far from the failures is best.
    if (!best_ || observations_.size() + pending_.size() < kInitialPoints) return FarPoint();
    std::vector<Point> candidates = Candidates();
    if (candidates.empty()) return std::nullopt;
    return Best(std::move(candidates));
  }

  void FindBest() {
    best_.reset();
    for (size_t i = 0; i < observations_.size(); ++i) {
      if (observations_[i].failed) continue;
      if (!best_ || observations_[i].log_ns < observations_[*best_].log_ns) best_ = i;
    }
  }

  // Squared, each scale counting 1.
  double Distance(const Point& a, const Point& b) const {
    double sum = 0;
    for (const SearchFeatures::Scale& scale : features_.scales()) {
      const double d = static_cast<double>(scale.level[a[scale.dimension]]) -
                       static_cast<double>(scale.level[b[scale.dimension]]);
      sum += d * d / ((scale.levels - 1.0) * (scale.levels - 1.0));
    }
    return sum;
  }

  // Of a few random points the one farthest from all that were proposed.
  std::optional<Point> FarPoint() {
    std::optional<Point> best;
    double best_distance = -1;
    for (int i = 0; i < kInitialDraws; ++i) {
      std::optional<Point> point = unseen_.DrawRandom();
      if (!point) break;
      double distance = std::numeric_limits<double>::infinity();
      const size_t first = observations_.size() - std::min(observations_.size(), kTreeObservations);
      for (size_t k = first; k < observations_.size(); ++k) {
        distance = std::min(distance, Distance(*point, observations_[k].point));
      }
      for (const auto& [waiting, unused] : pending_) {
        distance = std::min(distance, Distance(*point, waiting));
      }
      if (distance > best_distance) {
        best_distance = distance;
        best = std::move(point);
      }
    }
    return best;
  }

  // Indices of observations, the fastest first, failures last.
  std::vector<size_t> Ranking() const {
    std::vector<size_t> order(observations_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const Observation& x = observations_[a];
      const Observation& y = observations_[b];
      return x.failed != y.failed ? y.failed : !x.failed && x.log_ns < y.log_ns;
    });
    return order;
  }

  // The best of a ranking and a random choice of the rest.
  std::vector<size_t> Selection(std::vector<size_t> ranking, size_t count_max) {
    if (ranking.size() <= count_max) return ranking;
    const auto best = static_cast<size_t>(kBestShare * static_cast<double>(count_max));
    for (size_t i = best; i < count_max; ++i) {
      std::swap(ranking[i], ranking[i + unseen_.random()() % (ranking.size() - i)]);
    }
    ranking.resize(count_max);
    return ranking;
  }

  std::vector<Point> Candidates() {
    const ValidPoints* points = unseen_.space().points();
    std::vector<Point> candidates;
    if (points != nullptr && points->size() <= static_cast<int64_t>(kRandomCandidates)) {
      for (int64_t rank = 0; rank < points->size(); ++rank) {
        Point point = points->At(rank);
        if (!unseen_.IsTaken(point)) candidates.push_back(std::move(point));
      }
      return candidates;
    }
    RefreshPool();
    candidates = pool_;
    AddNeighbours(candidates);
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    return candidates;
  }

  void RefreshPool() {
    if (unseen_.space().points() != nullptr) {
      pool_.clear();
    } else {
      std::erase_if(pool_, [&](const Point& point) { return unseen_.IsTaken(point); });
    }
    const size_t fresh = unseen_.space().points() != nullptr ? kRandomCandidates : kFreshCandidates;
    for (size_t i = 0; i < fresh; ++i) {
      std::optional<Point> point = unseen_.DrawRandom();
      if (!point) break;
      if (pool_.size() < kRandomCandidates) {
        pool_.push_back(*std::move(point));
      } else {
        pool_[unseen_.random()() % pool_.size()] = *std::move(point);
      }
    }
  }

  void AddNeighbours(std::vector<Point>& candidates) {
    const std::vector<size_t> ranking = Ranking();
    const auto add = [&](const Point& point) {
      if (unseen_.space().Contains(point) && !unseen_.IsTaken(point)) candidates.push_back(point);
    };
    for (size_t i = 0; i < ranking.size() && i < kNeighbourhoods; ++i) {
      const Observation& centre = observations_[ranking[i]];
      if (centre.failed) break;
      for (size_t d = 0; d < centre.point.size(); ++d) {
        for (const uint16_t value : StepsIn(d)) {
          Point point = centre.point;
          point[d] = value;
          add(point);
        }
      }
      if (i < kPairNeighbourhoods) {
        for (int k = 0; k < kPairSteps; ++k) add(PairStep(centre.point));
      }
    }
  }

  // Any value in one tunable, the next one up or down in another.
  Point PairStep(Point point) {
    const size_t any = unseen_.random()() % point.size();
    const size_t next = unseen_.random()() % point.size();
    point[any] = static_cast<uint16_t>(unseen_.random()() % ValuesIn(any));
    const bool up =
        point[next] == 0 || (unseen_.random()() % 2 == 0 && point[next] + 1u < ValuesIn(next));
    if (ValuesIn(next) > 1) point[next] = static_cast<uint16_t>(point[next] + (up ? 1 : -1));
    return point;
  }

  size_t ValuesIn(size_t dimension) const {
    return unseen_.space().dimensions()[dimension].values.size();
  }

  std::vector<uint16_t> StepsIn(size_t dimension) {
    std::vector<uint16_t> values(ValuesIn(dimension));
    std::iota(values.begin(), values.end(), uint16_t{0});
    if (values.size() > kStepsPerDimension) {
      for (size_t i = 0; i < kStepsPerDimension; ++i) {
        std::swap(values[i], values[i + unseen_.random()() % (values.size() - i)]);
      }
      values.resize(kStepsPerDimension);
    }
    return values;
  }

  void FitTrees(const std::vector<size_t>& ranking) {
    ExtraTrees::Data data;
    data.columns = features_.count();
    double worst = observations_[*best_].log_ns;
    for (const Observation& observation : observations_) {
      if (!observation.failed) worst = std::max(worst, observation.log_ns);
    }
    const double best = observations_[*best_].log_ns;
    for (const size_t i : Selection(ranking, kTreeObservations)) {
      features_.AppendTo(observations_[i].point, data.rows);
      // Beyond the slowest, so that trees tell failures from slow configs.
      const double target = observations_[i].failed ? worst + 1 : observations_[i].log_ns;
      data.targets.push_back(static_cast<float>(target - best));
      data.failed.push_back(observations_[i].failed ? 1 : 0);
    }
    for (const auto& [point, expected] : pending_) {
      if (!expected) continue;
      features_.AppendTo(point, data.rows);
      data.targets.push_back(static_cast<float>(*expected - best));
      data.failed.push_back(0);
    }
    trees_.Fit(data, kTreesRegrown);
  }

  // Failures are left to the trees: a process would smear a cliff over its surroundings.
  void FitProcess(const std::vector<size_t>& ranking) {
    std::vector<size_t> succeeded;
    for (const size_t i : ranking) {
      if (!observations_[i].failed) succeeded.push_back(i);
    }
    std::vector<const Point*> points;
    std::vector<double> targets;
    for (const size_t i : Selection(std::move(succeeded), kProcessObservations)) {
      points.push_back(&observations_[i].point);
      targets.push_back(observations_[i].log_ns);
    }
    for (const auto& [point, expected] : pending_) {
      if (!expected || points.size() >= 2 * kProcessObservations) continue;
      points.push_back(&point);
      targets.push_back(*expected);
    }
    process_.Fit(points, std::move(targets));
  }

  Point Best(std::vector<Point> candidates) {
    const std::vector<size_t> ranking = Ranking();
    const double best = observations_[*best_].log_ns;
    FitTrees(ranking);
    struct Scored {
      size_t candidate = 0;
      double improvement = 0;
      double mean = 0;  // relative to the best
    };
    std::vector<Scored> scored;
    std::vector<float> rows;
    rows.reserve(candidates.size() * features_.count());
    for (const Point& candidate : candidates) features_.AppendTo(candidate, rows);
    const std::vector<ExtraTrees::Prediction> predictions = trees_.Predict(rows);
    for (size_t i = 0; i < candidates.size(); ++i) {
      const ExtraTrees::Prediction& prediction = predictions[i];
      scored.push_back(
          {.candidate = i,
           .improvement =
               prediction.success * ExpectedImprovement(prediction.mean, prediction.deviation, 0),
           .mean = prediction.mean});
    }
    const auto more = [](const Scored& a, const Scored& b) {
      return a.improvement != b.improvement ? a.improvement > b.improvement
                                            : a.candidate < b.candidate;
    };
    if (scored.size() > kShortlist) {
      std::nth_element(scored.begin(), scored.begin() + kShortlist, scored.end(), more);
      scored.resize(kShortlist);
    }
    FitProcess(ranking);
    std::vector<const Point*> shortlist;
    for (const Scored& one : scored) shortlist.push_back(&candidates[one.candidate]);
    const std::vector<double> improvements = process_.ExpectedImprovements(shortlist, best);
    // The product: what one of them rules out is not tried because the other is in doubt.
    size_t chosen = 0;
    double chosen_score = -1;
    for (size_t i = 0; i < scored.size(); ++i) {
      const double score = (scored[i].improvement + kFloor) * (improvements[i] + kFloor);
      if (score > chosen_score) {
        chosen_score = score;
        chosen = i;
      }
    }
    expected_ = best + scored[chosen].mean;
    return std::move(candidates[scored[chosen].candidate]);
  }

  UnseenPoints unseen_;
  const SearchFeatures features_;
  ExtraTrees trees_;
  AdditiveProcess process_;
  std::vector<Observation> observations_;
  absl::flat_hash_map<Point, size_t> index_;  // into observations_
  std::optional<size_t> best_;                // the fastest of them
  // Proposed and not observed, with the logarithm of the time they are taken to have until then, so
  // that the next proposals look elsewhere; nullopt for those proposed without a model.
  std::map<Point, std::optional<double>> pending_;
  std::optional<double> expected_;  // of the proposal being made
  std::vector<Point> pool_;         // random candidates
};

}  // namespace

std::unique_ptr<SearchStrategy> MakeModelGuided(SearchSpacePtr space, std::vector<Config> seeds,
                                                uint64_t seed) {
  return std::make_unique<ModelGuidedStrategy>(std::move(space), seeds, seed);
}

}  // namespace hone
