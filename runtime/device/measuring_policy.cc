#include "absl/strings/str_cat.h"
#include "runtime/device/profiler.h"

namespace hone {

std::string MeasuringPolicy::ToString() const {
  return absl::StrCat("v", kVersion, cold_cache ? " cold" : " warm");
}

}  // namespace hone
