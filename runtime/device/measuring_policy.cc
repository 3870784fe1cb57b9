#include <array>

#include "absl/strings/str_cat.h"
#include "runtime/device/profiler.h"

namespace hone {
namespace {

constexpr std::array<const char*, 3> kCacheNames = {"cold", "warm", "rotating"};

}  // namespace

std::optional<MeasuringPolicy::Cache> MeasuringPolicy::ParseCache(absl::string_view name) {
  for (size_t i = 0; i < kCacheNames.size(); ++i) {
    if (name == kCacheNames[i]) return static_cast<Cache>(i);
  }
  return std::nullopt;
}

std::string MeasuringPolicy::cache_name() const {
  return kCacheNames.at(static_cast<size_t>(cache));
}

std::string MeasuringPolicy::ToString() const {
  return absl::StrCat("v", kVersion, " ", cache_name());
}

}  // namespace hone
