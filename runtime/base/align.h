#pragma once

#include <cstdint>

namespace hone {

// The least multiple of `multiple` that is not below `value`. REQUIRES: value >= 0, multiple > 0.
constexpr int64_t AlignUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace hone
