#include "server/nearest_names.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hone {
namespace {

// Names are at most 64 long; longer input is cut, so that a request cannot buy much work.
constexpr size_t kLengthMax = 128;
constexpr size_t kSuggestionsMax = 3;

}  // namespace

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::vector<std::string> NearestNames(absl::string_view name, const std::vector<std::string>& known,
                                      size_t limit) {
  name = name.substr(0, kLengthMax);
  std::set<std::pair<size_t, std::string>> ranked;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, absl::string_view(candidate).substr(0, kLengthMax));
    const bool contains = name.size() >= 3 && (absl::StrContains(candidate, name) ||
                                               absl::StrContains(name, candidate));
    if (contains || distance <= std::max<size_t>(1, name.size() / 3)) {
      ranked.emplace(distance, candidate);
    }
  }
  std::vector<std::string> nearest;
  for (const auto& [distance, candidate] : ranked) {
    if (nearest.size() == limit) break;
    nearest.push_back(candidate);
  }
  return nearest;
}

std::string Suggestion(absl::string_view name, const std::vector<std::string>& templates) {
  const std::set<std::string> known(templates.begin(), templates.end());
  if (known.empty()) return "there are no templates";
  const std::vector<std::string> nearest = NearestNames(name, templates, kSuggestionsMax);
  if (nearest.empty()) return absl::StrCat("there are ", known.size(), ", none of a similar name");
  return absl::StrCat("did you mean ", absl::StrJoin(nearest, ", "), "?");
}

}  // namespace hone
