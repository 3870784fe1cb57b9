#include "runtime/cache/tune_seeds.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/base/status_macros.h"
#include "runtime/cache/kernel_resolver.h"
#include "runtime/cache/near_keys.h"

namespace hone {
namespace {

class Seeds {
 public:
  explicit Seeds(KernelStore& store) : store_(store) {}

  // True if the key's winner is a config that was not there yet.
  absl::StatusOr<bool> Add(const std::string& tuning_key) {
    HONE_ASSIGN_OR_RETURN(const auto winner,
                          store_.GetWinner(tuning_key, "", Numerics::kWithinTolerance));
    if (!winner || winner->variants.empty()) return false;
    const Config& config = winner->variants.front().config;
    if (std::find(configs_.begin(), configs_.end(), config) != configs_.end()) return false;
    configs_.push_back(config);
    return true;
  }

  std::vector<Config> Take() { return std::move(configs_); }

 private:
  KernelStore& store_;
  std::vector<Config> configs_;
};

}  // namespace

absl::StatusOr<std::vector<Config>> TuneSeeds(const ResolvedRequest& request, KernelStore& store) {
  const std::string key = request.TuningKeyOf(request.problem)->id();
  Seeds seeds(store);
  HONE_RETURN_IF_ERROR(seeds.Add(key).status());

  HONE_ASSIGN_OR_RETURN(const std::vector<TuningRecord> records,
                        store.TuningsOf(request.kernel_template->kernel_digest(), ""));
  std::vector<std::pair<double, const TuningRecord*>> neighbours;
  std::vector<const TuningRecord*> elsewhere;
  for (const TuningRecord& record : records) {
    const auto problem = Problem::Parse(*request.kernel_template, record.problem);
    if (record.key == key || !problem.ok()) continue;
    const auto distance =
        ProblemDistance(*request.kernel_template, request.problem.values(), problem->values());
    if (!distance) continue;
    if (record.device == *request.device) {
      neighbours.emplace_back(*distance, &record);
    } else if (*distance == 0) {
      elsewhere.push_back(&record);
    }
  }
  std::stable_sort(neighbours.begin(), neighbours.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t added = 0;
  for (size_t i = 0; i < neighbours.size() && added < kSeedsOfAKind; ++i) {
    HONE_ASSIGN_OR_RETURN(const bool is_new, seeds.Add(neighbours[i].second->key));
    added += is_new ? 1 : 0;
  }
  added = 0;
  for (size_t i = 0; i < elsewhere.size() && added < kSeedsOfAKind; ++i) {
    HONE_ASSIGN_OR_RETURN(const bool is_new, seeds.Add(elsewhere[i]->key));
    added += is_new ? 1 : 0;
  }
  return seeds.Take();
}

}  // namespace hone
