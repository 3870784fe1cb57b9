#include "runtime/cache/near_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// Of the template's keys, when none of this kernel and device is tuned.
constexpr int kOtherKeysMax = 100;

}  // namespace

absl::StatusOr<std::vector<NearKey>> NearKeys(const ResolvedRequest& request, KernelStore& store) {
  const std::optional<Key> key = request.TuningKeyOf(request.problem);
  if (!key) return std::vector<NearKey>();
  const KernelTemplate& kernel_template = *request.kernel_template;
  HONE_ASSIGN_OR_RETURN(std::vector<TuningRecord> records,
                        store.TuningsOf(kernel_template.kernel_digest(), request.device->Key()));
  if (records.empty()) {
    HONE_ASSIGN_OR_RETURN(TuningPage page,
                          store.ListTunings(kernel_template.name(), kOtherKeysMax, ""));
    records = std::move(page.records);
  }
  // By what differs, then by how much; the store's order, newest first, decides ties.
  std::vector<std::tuple<size_t, double, size_t>> ranks;
  std::vector<NearKey> keys;
  for (const TuningRecord& record : records) {
    if (record.key == key->id()) continue;
    NearKey near{.key = record.key, .problem = record.problem, .architecture = record.architecture};
    near.differs_in = key->Difference(Key(record.ingredients));
    const auto problem = Problem::Parse(kernel_template, record.problem);
    const auto distance =
        problem.ok() ? ProblemDistance(kernel_template, request.problem.values(), problem->values())
                     : std::nullopt;
    ranks.emplace_back(near.differs_in.size(),
                       distance.value_or(std::numeric_limits<double>::infinity()), keys.size());
    keys.push_back(std::move(near));
  }
  const size_t count = std::min(kNearKeysMax, ranks.size());
  std::partial_sort(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(count), ranks.end());
  std::vector<NearKey> nearest;
  for (size_t i = 0; i < count; ++i) nearest.push_back(std::move(keys[std::get<2>(ranks[i])]));
  return nearest;
}

std::optional<double> ProblemDistance(const KernelTemplate& kernel_template, const Values& a,
                                      const Values& b) {
  double distance = 0;
  for (const auto& [name, value] : a) {
    const auto other = b.find(name);
    if (other == b.end()) return std::nullopt;
    if (value == other->second) continue;
    const Parameter* parameter = kernel_template.FindParameter(name);
    if (parameter == nullptr || parameter->kind != ParameterKind::kSize) return std::nullopt;
    const double x = static_cast<double>(std::max<int64_t>(1, std::get<int64_t>(value)));
    const double y = static_cast<double>(std::max<int64_t>(1, std::get<int64_t>(other->second)));
    distance += std::abs(std::log2(x / y));
    if (x == y) distance += 1e-9;  // 0 and 1 differ, if only just
  }
  return distance;
}

}  // namespace hone
