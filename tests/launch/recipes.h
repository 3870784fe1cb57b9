// Recipes for tests, written as the templates write them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/launch/launch_recipe.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {

inline Expression E(const std::string& text) { return Expression::Parse(text).value(); }

inline RecipeBuffer DenseBuffer(DataType dtype, Access access, int64_t alignment_bytes = 1) {
  RecipeBuffer buffer;
  buffer.dtype = dtype;
  buffer.shape = {E("n")};
  buffer.strides = {E("1")};
  buffer.access = access;
  buffer.alignment_bytes = alignment_bytes;
  return buffer;
}

inline RecipeScalar ComputedScalar(DataType type, const std::string& value) {
  return RecipeScalar{.type = type, .value = E(value)};
}

// copy_1d with 16-byte accesses over blocks of 1,024 elements: dst, src, n.
inline LaunchRecipe CopyRecipe() {
  LaunchRecipe recipe;
  recipe.dynamic_sizes = {"n"};
  recipe.arguments = {{"dst", DenseBuffer(DataType::kF32, Access::kWrite, 16)},
                      {"src", DenseBuffer(DataType::kF32, Access::kRead, 16)},
                      {"n", ComputedScalar(DataType::kI64, "n")}};
  RecipeStep step;
  step.symbol = "copy";
  step.launch.grid[0] = E("ceil_div(n, 1024)");
  step.launch.block[0] = E("256");
  step.arguments = {0, 1, 2};
  recipe.steps = {step};
  return recipe;
}

inline LaunchArguments CopyArguments(int64_t n) {
  LaunchArguments arguments;
  arguments.sizes = {{"n", n}};
  arguments.buffers = {{"dst", {.address = 0x100000}}, {"src", {.address = 0x200000}}};
  return arguments;
}

// rmsnorm as it is served: y, x, weight, eps, rows; 4,096 columns, 16-byte accesses.
inline LaunchRecipe RmsNormRecipe() {
  LaunchRecipe recipe;
  recipe.dynamic_sizes = {"rows"};
  RecipeBuffer matrix = DenseBuffer(DataType::kBF16, Access::kRead, 16);
  matrix.shape = {E("rows"), E("4096")};
  matrix.strides = {E("4096"), E("1")};
  RecipeBuffer y = matrix;
  y.access = Access::kWrite;
  RecipeBuffer weight = DenseBuffer(DataType::kBF16, Access::kRead, 16);
  weight.shape = {E("4096")};
  recipe.arguments = {{"y", y},
                      {"x", matrix},
                      {"weight", weight},
                      {"eps", RecipeScalar{.type = DataType::kF32, .value = std::nullopt}},
                      {"rows", ComputedScalar(DataType::kI64, "rows")}};
  RecipeStep step;
  step.symbol = "rmsnorm";
  step.launch.grid[0] = E("ceil_div(rows, 4)");
  step.launch.block[0] = E("128");
  step.arguments = {0, 1, 2, 3, 4};
  recipe.steps = {step};
  recipe.guards = {E("rows <= 1048576")};
  return recipe;
}

}  // namespace hone
