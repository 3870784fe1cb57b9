// Launch recipes and expressions as messages of the public API.
#pragma once

#include "absl/status/statusor.h"
#include "hone/v1/kernel_service.pb.h"
#include "runtime/launch/expression.h"
#include "runtime/launch/launch_recipe.h"

namespace hone {

v1::Expression ToProto(const Expression& expression);
v1::LaunchRecipe ToProto(const LaunchRecipe& recipe);

// The sender is not trusted: INVALID_ARGUMENT names the field for unknown operators (also `sizeof`
// and `bits`, which never leave the daemon), wrong operand counts, nesting beyond 64, unknown enum
// values, dangling indices and names, and sizes beyond what a recipe can need.
absl::StatusOr<Expression> FromProto(const v1::Expression& expression);
absl::StatusOr<LaunchRecipe> FromProto(const v1::LaunchRecipe& recipe);

}  // namespace hone
