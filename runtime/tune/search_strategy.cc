#include "runtime/tune/search_strategy.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

// Spaces with at most this many product points are enumerated outright; larger ones are only
// sampled.
constexpr int64_t kEnumerateMax = 1 << 20;
// Draws without a new valid config after which a sampled space counts as covered. At one valid
// point in a thousand this still finds an unseen one with probability 1 - e^-20.
constexpr int kFruitlessDrawsMax = 20'000;

class FixedStrategy : public SearchStrategy {
 public:
  explicit FixedStrategy(std::vector<Config> configs) : configs_(std::move(configs)) {}

  std::optional<Config> Next() override {
    while (next_ < configs_.size()) {
      const Config& config = configs_[next_++];
      if (seen_.insert(config).second) return config;
    }
    return std::nullopt;
  }
  void Observe(const Measurement&) override {}

 private:
  const std::vector<Config> configs_;
  size_t next_ = 0;
  std::set<Config> seen_;
};

// Draws points of the product uniformly and keeps valid unseen ones: uniform over the valid
// configs.
class SamplingStrategy : public SearchStrategy {
 public:
  SamplingStrategy(const ConfigSpace& space, std::vector<Config> seeds, uint64_t seed)
      : space_(space), seeds_(std::move(seeds)), random_(seed) {}

  std::optional<Config> Next() override {
    while (next_seed_ < seeds_.size()) {
      const Config& config = seeds_[next_seed_++];
      if (seen_.insert(config).second) return config;
    }
    std::uniform_int_distribution<int64_t> draw(0, space_.product_size() - 1);
    for (int fruitless = 0; fruitless < kFruitlessDrawsMax; ++fruitless) {
      Config config = space_.At(draw(random_));
      if (!space_.Validate(config).ok()) continue;
      if (seen_.insert(config).second) return config;
    }
    return std::nullopt;
  }
  void Observe(const Measurement&) override {}

 private:
  const ConfigSpace space_;
  const std::vector<Config> seeds_;
  size_t next_seed_ = 0;
  std::mt19937_64 random_;
  std::set<Config> seen_;
};

std::vector<Config> SeedsThen(std::vector<Config> seeds, std::vector<Config> rest) {
  seeds.insert(seeds.end(), std::make_move_iterator(rest.begin()),
               std::make_move_iterator(rest.end()));
  return seeds;
}

}  // namespace

std::unique_ptr<SearchStrategy> MakeFixed(std::vector<Config> configs) {
  return std::make_unique<FixedStrategy>(std::move(configs));
}

std::unique_ptr<SearchStrategy> MakeExhaustive(const ConfigSpace& space,
                                               std::vector<Config> seeds) {
  std::vector<Config> all;
  space.ForEachValid([&](const Config& config) {
    all.push_back(config);
    return true;
  });
  return MakeFixed(SeedsThen(std::move(seeds), std::move(all)));
}

std::unique_ptr<SearchStrategy> MakeRandom(const ConfigSpace& space, std::vector<Config> seeds,
                                           uint64_t seed) {
  if (space.product_size() > kEnumerateMax) {
    return std::make_unique<SamplingStrategy>(space, std::move(seeds), seed);
  }
  std::vector<Config> all;
  space.ForEachValid([&](const Config& config) {
    all.push_back(config);
    return true;
  });
  std::mt19937_64 random(seed);
  std::shuffle(all.begin(), all.end(), random);
  return MakeFixed(SeedsThen(std::move(seeds), std::move(all)));
}

absl::StatusOr<std::unique_ptr<SearchStrategy>> MakeStrategy(const std::string& name,
                                                             const ConfigSpace& space,
                                                             std::vector<Config> seeds,
                                                             int64_t evaluations_max,
                                                             uint64_t seed) {
  if (name == "random") return MakeRandom(space, std::move(seeds), seed);
  if (name == "exhaustive") {
    if (space.product_size() > kEnumerateMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("strategy: exhaustive cannot cover a space of ", space.product_size(),
                       " points (at most ", kEnumerateMax, "); use random with a budget"));
    }
    return MakeExhaustive(space, std::move(seeds));
  }
  if (!name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: '", name, "' is unknown; use exhaustive or random"));
  }
  const bool covered = evaluations_max == 0 ? space.product_size() <= kEnumerateMax
                                            : space.ValidConfigs(evaluations_max).ok();
  if (covered) return MakeExhaustive(space, std::move(seeds));
  if (evaluations_max == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("budget: a space of ", space.product_size(),
                     " points needs evaluations_max or seconds_max with strategy random"));
  }
  return MakeRandom(space, std::move(seeds), seed);
}

}  // namespace hone
