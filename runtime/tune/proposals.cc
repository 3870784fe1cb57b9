#include "runtime/tune/proposals.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/tune/analytic_rank.h"
#include "runtime/tune/compile_order.h"
#include "runtime/tune/search_space.h"

namespace hone {
namespace {

// More configs than this are not listed beforehand: a list of millions takes gigabytes.
constexpr int64_t kListedMax = 4096;

// The default, priors, and winners from elsewhere.
std::vector<Config> Seeds(const TuneSpec& spec, const ConfigSpace& space) {
  std::vector<Config> seeds;
  if (auto config = space.Default(); config.ok()) seeds.push_back(*std::move(config));
  for (const Config& prior : space.Priors()) seeds.push_back(prior);
  seeds.insert(seeds.end(), spec.seeds.begin(), spec.seeds.end());
  return seeds;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Proposals>> Proposals::Create(const TuneSpec& spec,
                                                             const ConfigSpace& space,
                                                             const std::vector<Measurement>& known,
                                                             const CandidateBuilder& builder) {
  auto proposals = std::unique_ptr<Proposals>(new Proposals());
  const SearchSpacePtr search_space = SearchSpace::Of(space);
  const SearchBudget budget{
      .evaluations_max = spec.evaluations_max,
      .other_limit = spec.time_max != absl::InfiniteDuration() || spec.patience > 0};
  const std::vector<Config> seeds = Seeds(spec, space);
  HONE_ASSIGN_OR_RETURN(auto strategy,
                        MakeStrategy(spec.strategy, search_space, seeds, budget, spec.seed));
  int64_t left =
      spec.evaluations_max > 0 ? spec.evaluations_max : std::numeric_limits<int64_t>::max();
  proposals->learns_ = strategy->learns();
  const bool listed =
      !proposals->learns_ && (search_space->size() <= kListedMax || left <= kListedMax);
  if (!listed) {
    for (const Measurement& measurement : known) {
      if (!search_space->PointOf(measurement.config)) continue;
      strategy->Observe(measurement);
      ++proposals->reused_;
    }
    left = std::max<int64_t>(0, left - proposals->reused_);
  }
  while (left > 0 && (listed || proposals->first_.empty())) {
    std::optional<Config> config = strategy->Next();
    if (!config) break;
    proposals->first_.push_back(*std::move(config));
    --left;
  }
  if (proposals->first_.empty() && proposals->reused_ == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no config of template '", spec.kernel_template->name(),
                     "' satisfies its constraints for ", spec.problem.ToString()));
  }
  if (spec.ranked_share > 0 && spec.ranked_share < 1) {
    if (!listed) {
      return absl::InvalidArgumentError(
          "ranked_share: needs a list of the configs; give strategy exhaustive or random, and a "
          "budget of evaluations where the space has more than 4096");
    }
    HONE_RETURN_IF_ERROR(proposals->Rank(spec, space, builder));
  }
  if (listed && !budget.other_limit) {
    // All of them will be measured, so that only the likeliest have a claim to their place.
    const auto is_seed = [&](const Config& config) {
      return std::find(seeds.begin(), seeds.end(), config) != seeds.end();
    };
    std::vector<Config>& first = proposals->first_;
    const auto rest = std::stable_partition(first.begin(), first.end(), is_seed);
    OrderForCompiling(builder, spec.problem, spec.device.Facts(),
                      static_cast<size_t>(rest - first.begin()), first);
  }
  if (listed || proposals->first_.empty()) return proposals;
  const double unknown = search_space->size() - static_cast<double>(proposals->reused_) - 1;
  proposals->later_ = static_cast<int64_t>(std::clamp(unknown, 0.0, static_cast<double>(left)));
  MutexLock lock(&proposals->mutex_);
  proposals->strategy_ = std::move(strategy);
  return proposals;
}

absl::Status Proposals::Rank(const TuneSpec& spec, const ConfigSpace& space,
                             const CandidateBuilder& builder) {
  std::vector<Config> always = space.Priors();
  if (auto config = space.Default(); config.ok()) always.push_back(*std::move(config));
  HONE_ASSIGN_OR_RETURN(Ranking ranking, RankConfigs(builder, spec.problem, spec.device, first_,
                                                     always, spec.ranked_share, spec.seed));
  first_ = std::move(ranking.kept);
  ranked_ = std::set<Config>(first_.begin(), first_.end());
  first_.insert(first_.end(), ranking.controls.begin(), ranking.controls.end());
  left_out_ = ranking.left_out;
  return absl::OkStatus();
}

double Proposals::RankingRegret(const std::vector<Measurement>& measurements) const {
  double kept_ns = 0, best_ns = 0;
  for (const Measurement& measurement : measurements) {
    if (measurement.rejection || measurement.samples_ns.empty()) continue;
    const double ns = measurement.median_ns;
    if (best_ns == 0 || ns < best_ns) best_ns = ns;
    if (ranked_.contains(measurement.config) && (kept_ns == 0 || ns < kept_ns)) kept_ns = ns;
  }
  return kept_ns > 0 ? kept_ns / best_ns - 1 : 0;
}

void Proposals::Close() {
  MutexLock lock(&mutex_);
  later_ = proposed_;
}

std::optional<Config> Proposals::Next() {
  MutexLock lock(&mutex_);
  if (strategy_ == nullptr || proposed_ == later_) return std::nullopt;
  ++proposed_;
  return strategy_->Next();
}

void Proposals::Teach(const Measurement& measurement) {
  MutexLock lock(&mutex_);
  if (strategy_ != nullptr) strategy_->Observe(measurement);
}

}  // namespace hone
