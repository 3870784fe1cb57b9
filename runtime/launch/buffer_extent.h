// A buffer's shape and strides for one launch's sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {

struct BufferExtent {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // elements
};

// INVALID_ARGUMENT for a negative extent or stride.
absl::StatusOr<BufferExtent> EvaluateExtent(const RecipeBuffer& buffer, const SizeBindings& sizes);
// 0 when any extent is 0. OUT_OF_RANGE beyond 2^63-1.
absl::StatusOr<int64_t> SpanBytes(const BufferExtent& extent, DataType dtype);

// The launch's sizes with its integral per-launch scalars: everything expressions may mention.
SizeBindings LaunchBindings(const LaunchRecipe& recipe, const LaunchArguments& arguments);

// The same error with "context: " before its message.
absl::Status InContext(const absl::Status& status, absl::string_view context);

}  // namespace hone
