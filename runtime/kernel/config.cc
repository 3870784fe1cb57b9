#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/kernel/config_space.h"

namespace hone {

Config::Config(std::vector<std::pair<std::string, int64_t>> values) : values_(std::move(values)) {}

absl::StatusOr<Config> Config::Parse(const std::string& text) {
  std::vector<std::pair<std::string, int64_t>> values;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    int64_t value = 0;
    if (parts.size() != 2 || parts[0].empty() || !absl::SimpleAtoi(parts[1], &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("config \"", text, "\": \"", word, "\" is not NAME=INTEGER"));
    }
    for (const auto& [name, unused] : values) {
      if (name == parts[0]) {
        return absl::InvalidArgumentError(
            absl::StrCat("config \"", text, "\": ", name, " is given twice"));
      }
    }
    values.emplace_back(parts[0], value);
  }
  return Config(std::move(values));
}

int64_t Config::value(const std::string& tunable) const {
  for (const auto& [name, value] : values_) {
    if (name == tunable) return value;
  }
  std::fprintf(stderr, "hone: config \"%s\" has no tunable %s\n", ToString().c_str(),
               tunable.c_str());
  std::abort();
}

Config Config::InOrderOf(const Config& other) const {
  std::vector<std::pair<std::string, int64_t>> ordered;
  const auto move = [&](auto& from, const std::string& name) {
    const auto found =
        std::find_if(from.begin(), from.end(), [&](const auto& v) { return v.first == name; });
    if (found == from.end()) return;
    ordered.push_back(std::move(*found));
    from.erase(found);
  };
  std::vector<std::pair<std::string, int64_t>> rest = values_;
  for (const auto& [name, value] : other.values_) move(rest, name);
  for (auto& value : rest) ordered.push_back(std::move(value));
  return Config(std::move(ordered));
}

std::string Config::ToString() const {
  std::string text;
  for (const auto& [name, value] : values_) {
    absl::StrAppend(&text, text.empty() ? "" : " ", name, "=", value);
  }
  return text;
}

}  // namespace hone
