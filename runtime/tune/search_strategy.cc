#include "runtime/tune/search_strategy.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/tune/unseen_points.h"

namespace hone {
namespace {

// The largest space that is measured completely. At a few milliseconds a candidate this is most of
// a day: nobody wants more, and beyond it a forgotten budget is the likelier reason.
constexpr int64_t kExhaustiveMax = 10'000'000;
// Without any budget, the largest space that is measured completely unasked.
constexpr int64_t kUnaskedMax = 1 << 20;

class ExhaustiveStrategy : public SearchStrategy {
 public:
  ExhaustiveStrategy(SearchSpacePtr space, const std::vector<Config>& seeds)
      : space_(space), unseen_(std::move(space), seeds, 0) {}

  std::optional<Config> Next() override {
    if (const std::optional<Point> point = unseen_.TakeSeed()) return space_->ConfigAt(*point);
    while (rank_ < space_->points()->size()) {
      const Point point = space_->points()->At(rank_++);
      if (!unseen_.IsTaken(point)) return space_->ConfigAt(point);
    }
    return std::nullopt;
  }
  void Observe(const Measurement& measurement) override {
    const std::optional<Point> point = space_->PointOf(measurement.config);
    // What lies behind the cursor needs no remembering.
    if (point && space_->points()->RankOf(*point) >= rank_) unseen_.Take(*point);
  }

 private:
  const SearchSpacePtr space_;
  UnseenPoints unseen_;  // seeds and what was observed without being proposed
  int64_t rank_ = 0;
};

class RandomStrategy : public SearchStrategy {
 public:
  RandomStrategy(SearchSpacePtr space, const std::vector<Config>& seeds, uint64_t seed)
      : unseen_(std::move(space), seeds, seed) {}

  std::optional<Config> Next() override {
    std::optional<Point> point = unseen_.TakeSeed();
    if (!point) point = unseen_.TakeRandom();
    if (!point) return std::nullopt;
    return unseen_.space().ConfigAt(*point);
  }
  void Observe(const Measurement& measurement) override {
    if (const std::optional<Point> point = unseen_.space().PointOf(measurement.config)) {
      unseen_.Take(*point);
    }
  }

 private:
  UnseenPoints unseen_;
};

constexpr absl::string_view kNames[] = {"exhaustive", "random", "local", "model"};

absl::Status TooLarge(const SearchSpace& space, absl::string_view field, int64_t limit) {
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": the space has ", space.SizeText(), " valid configs and at most ", limit,
      " are measured without a limit; give evaluations_max, seconds_max or patience"));
}

// Points that can all be measured within `limit`.
bool Covers(int64_t limit, const SearchSpace& space) {
  return space.points() != nullptr && space.points()->size() <= limit;
}

}  // namespace

std::unique_ptr<SearchStrategy> MakeExhaustive(SearchSpacePtr space, std::vector<Config> seeds) {
  return std::make_unique<ExhaustiveStrategy>(std::move(space), seeds);
}

std::unique_ptr<SearchStrategy> MakeRandom(SearchSpacePtr space, std::vector<Config> seeds,
                                           uint64_t seed) {
  return std::make_unique<RandomStrategy>(std::move(space), seeds, seed);
}

absl::Span<const absl::string_view> StrategyNames() { return kNames; }

std::string StrategyList() {
  const absl::Span<const absl::string_view> names = StrategyNames();
  return absl::StrCat(absl::StrJoin(names.first(names.size() - 1), ", "), " or ", names.back());
}

absl::StatusOr<std::unique_ptr<SearchStrategy>> MakeStrategy(const std::string& name,
                                                             SearchSpacePtr space,
                                                             std::vector<Config> seeds,
                                                             const SearchBudget& budget,
                                                             uint64_t seed) {
  const bool limited = budget.evaluations_max > 0 || budget.other_limit;
  if (name == "exhaustive") {
    if (!Covers(kExhaustiveMax, *space)) return TooLarge(*space, "strategy", kExhaustiveMax);
    return MakeExhaustive(std::move(space), std::move(seeds));
  }
  if (!name.empty() && name != "random" && name != "local" && name != "model") {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: '", name, "' is unknown; use ", StrategyList()));
  }
  if (!limited && !Covers(kUnaskedMax, *space)) return TooLarge(*space, "budget", kUnaskedMax);
  if (name == "random") return MakeRandom(std::move(space), std::move(seeds), seed);
  if (name == "local") return MakeLocal(std::move(space), std::move(seeds), seed);
  if (name == "model") return MakeModelGuided(std::move(space), std::move(seeds), seed);
  const bool covered =
      budget.evaluations_max > 0 ? Covers(budget.evaluations_max, *space) : !budget.other_limit;
  if (covered) return MakeExhaustive(std::move(space), std::move(seeds));
  return MakeModelGuided(std::move(space), std::move(seeds), seed);
}

}  // namespace hone
