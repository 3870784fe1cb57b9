#include "runtime/launch/buffer_extent.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

absl::StatusOr<std::vector<int64_t>> EvaluateList(const std::vector<Expression>& list,
                                                  const SizeBindings& sizes,
                                                  absl::string_view field) {
  std::vector<int64_t> values;
  values.reserve(list.size());
  for (const Expression& e : list) {
    const absl::StatusOr<int64_t> value = e.Evaluate(sizes);
    const std::string where = absl::StrCat(field, "[", values.size(), "]");
    if (!value.ok()) return InContext(value.status(), where);
    if (*value < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " is ", *value, ", it must not be negative"));
    }
    values.push_back(*value);
  }
  return values;
}

}  // namespace

absl::Status InContext(const absl::Status& status, absl::string_view context) {
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

absl::StatusOr<BufferExtent> EvaluateExtent(const RecipeBuffer& buffer, const SizeBindings& sizes) {
  BufferExtent extent;
  HONE_ASSIGN_OR_RETURN(extent.shape, EvaluateList(buffer.shape, sizes, "shape"));
  HONE_ASSIGN_OR_RETURN(extent.strides, EvaluateList(buffer.strides, sizes, "strides"));
  if (extent.shape.size() != extent.strides.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a shape of ", extent.shape.size(),
                                                   " dimensions with ", extent.strides.size(),
                                                   " strides"));
  }
  return extent;
}

absl::StatusOr<int64_t> SpanBytes(const BufferExtent& extent, DataType dtype) {
  int64_t elements = 1;  // from the first to the last, both counted
  bool overflow = false;
  for (size_t i = 0; i < extent.shape.size(); ++i) {
    if (extent.shape[i] == 0) return 0;
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(extent.shape[i] - 1, extent.strides[i], &reach);
    overflow |= __builtin_add_overflow(elements, reach, &elements);
  }
  int64_t bytes = 0;
  overflow |= __builtin_mul_overflow(elements, int64_t{SizeBytes(dtype)}, &bytes);
  if (overflow) return absl::OutOfRangeError("the buffer spans more than 2^63-1 bytes");
  return bytes;
}

absl::StatusOr<int64_t> BufferSpanBytes(const RecipeBuffer& buffer, const SizeBindings& sizes) {
  HONE_ASSIGN_OR_RETURN(const BufferExtent extent, EvaluateExtent(buffer, sizes));
  return SpanBytes(extent, buffer.dtype);
}

absl::StatusOr<int64_t> ScratchBytes(const RecipeScratch& scratch, const SizeBindings& sizes) {
  const absl::StatusOr<int64_t> bytes = scratch.bytes.Evaluate(sizes);
  if (!bytes.ok()) return InContext(bytes.status(), "scratch bytes");
  if (*bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("scratch bytes are ", *bytes, ", they must not be negative"));
  }
  return *bytes;
}

SizeBindings LaunchBindings(const LaunchRecipe& recipe, const LaunchArguments& arguments) {
  SizeBindings bindings = arguments.sizes;
  for (const RecipeArgument& argument : recipe.arguments) {
    const auto* scalar = std::get_if<RecipeScalar>(&argument.kind);
    if (scalar == nullptr || scalar->value || IsFloatingPoint(scalar->type)) continue;
    const auto given = arguments.scalars.find(argument.name);
    if (given == arguments.scalars.end()) continue;
    const double value = given->second;
    // Anything else is refused where the scalar is packed.
    if (std::trunc(value) == value && std::fabs(value) < 0x1p63) {
      bindings.emplace(argument.name, static_cast<int64_t>(value));
    }
  }
  return bindings;
}

}  // namespace hone
