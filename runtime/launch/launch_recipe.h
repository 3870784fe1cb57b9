// How to launch a kernel variant, with everything resolved but dynamic sizes, device facts,
// pointers and per-launch scalars. Shared by the measuring worker and the client, so that what is
// served is launched exactly as it was verified.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/launch/data_type.h"
#include "runtime/launch/expression.h"

namespace hone {

enum class Access { kRead, kWrite, kReadWrite };
enum class ScratchZeroed { kNever, kOnce, kEveryLaunch };

struct RecipeBuffer {
  DataType dtype = DataType::kF32;
  std::vector<Expression> shape;
  std::vector<Expression>
      strides;  // elements, same length as shape; dense row-major already filled in
  Access access = Access::kRead;
  int64_t alignment_bytes = 1;
  std::vector<std::string> may_alias;
  bool optional = false;
};

struct RecipeScalar {
  DataType type = DataType::kI64;
  std::optional<Expression> value;  // absent: given per launch
};

struct RecipeTensorMap {
  // Values equal CUtensorMapSwizzle, CUtensorMapInterleave, CUtensorMapL2promotion.
  std::string buffer;
  DataType dtype = DataType::kF32;
  std::vector<Expression> dims;           // elements, innermost first
  std::vector<Expression> strides_bytes;  // of dimensions 1 and up
  std::vector<Expression> box;
  std::vector<Expression> element_strides;
  int swizzle = 0;
  int interleave = 0;
  int l2_promotion = 0;
  bool fill_nan = false;
};

struct RecipeScratch {
  Expression bytes;
  ScratchZeroed zeroed = ScratchZeroed::kNever;
};

struct RecipeArgument {
  std::string name;
  std::variant<RecipeBuffer, RecipeScalar, RecipeTensorMap, RecipeScratch> kind;
};

struct LaunchShape {
  static std::array<Expression, 3> Ones() {
    return {Expression::Constant(1), Expression::Constant(1), Expression::Constant(1)};
  }
  std::array<Expression, 3> grid = Ones();  // x, y, z
  std::array<Expression, 3> block = Ones();
  std::array<Expression, 3> cluster = Ones();
  Expression dynamic_shared_bytes;
};

struct RecipeStep {
  // A kernel when `symbol` is not empty, else a memset.
  std::string symbol;
  LaunchShape launch;
  std::vector<int> arguments;  // indices into LaunchRecipe::arguments
  std::optional<Expression> when;
  bool programmatic_dependent_launch = false;

  int memset_argument = -1;
  int memset_value = 0;
  std::optional<Expression> memset_bytes;
};

struct LaunchRecipe {
  std::vector<std::string> dynamic_sizes;
  std::vector<RecipeArgument> arguments;
  std::vector<RecipeStep> steps;
  // Guards over dynamic sizes; alignment and strides stand in the buffers.
  std::vector<Expression> guards;
  Expression work_bytes;
  Expression work_flops;
  std::optional<Expression> work_traffic_bytes;  // the tuner's; not in the recipe that is served
};

}  // namespace hone
