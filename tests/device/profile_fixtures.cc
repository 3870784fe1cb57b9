#include "tests/device/profile_fixtures.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/testing/fake_compiler.h"

namespace hone {
namespace {

const Expression kN = Expression::Variable("n");

RecipeArgument ScalarN() { return {"n", RecipeScalar{DataType::kI64, kN}}; }

std::vector<RecipeArgument> CopyArguments(int64_t alignment_bytes) {
  RecipeArgument dst = BufferArgumentOf("dst", Access::kWrite);
  RecipeArgument src = BufferArgumentOf("src", Access::kRead);
  std::get<RecipeBuffer>(dst.kind).alignment_bytes = alignment_bytes;
  std::get<RecipeBuffer>(src.kind).alignment_bytes = alignment_bytes;
  return {dst, src, ScalarN()};
}

std::vector<RecipeArgument> ScaleArguments() {
  return {BufferArgumentOf("x", Access::kReadWrite), ScalarN()};
}

ProfileProblem MakeProblem(int64_t n, std::vector<RecipeArgument> arguments,
                           const std::string& output, const std::string& reference) {
  ProfileProblem problem;
  problem.sizes = {{"n", n}};
  problem.arguments = RecipeOf(arguments, reference, 256);
  const ReferenceCheck::Output checked{output, Tolerance{.exact = true}};
  problem.check.references.push_back({problem.arguments, {checked}});
  problem.check.outputs = {checked};
  problem.check_artifact = ArtifactOf({reference});
  return problem;
}

ProfileCandidate MakeCandidate(int64_t id, const std::string& entry,
                               std::vector<RecipeArgument> arguments, int64_t xblock,
                               const std::vector<int64_t>& check_sizes) {
  ProfileCandidate candidate;
  candidate.id = id;
  candidate.config = Config({{"XBLOCK", xblock}});
  candidate.artifact = ArtifactOf({entry});
  candidate.recipe = RecipeOf(std::move(arguments), entry, xblock);
  candidate.check_sizes = SizesOf(check_sizes);
  return candidate;
}

}  // namespace

RecipeArgument BufferArgumentOf(const std::string& name, Access access, DataType dtype) {
  RecipeBuffer buffer;
  buffer.dtype = dtype;
  buffer.shape = {kN};
  buffer.strides = {Expression::Constant(1)};
  buffer.access = access;
  buffer.alignment_bytes = SizeBytes(dtype);
  return {name, buffer};
}

LaunchRecipe RecipeOf(std::vector<RecipeArgument> arguments, const std::string& entry,
                      int64_t block) {
  LaunchRecipe recipe;
  recipe.dynamic_sizes = {"n"};
  recipe.arguments = std::move(arguments);
  RecipeStep step;
  step.symbol = FakeLoweredName(entry);
  const Expression one = Expression::Constant(1);
  const Expression blocks =
      *Expression::Make(Expression::Op::kCeilDiv, {kN, Expression::Constant(block)});
  step.launch.grid = {blocks, one, one};
  step.launch.block = {Expression::Constant(block), one, one};
  step.launch.cluster = {one, one, one};
  for (size_t i = 0; i < recipe.arguments.size(); ++i) {
    step.arguments.push_back(static_cast<int>(i));
  }
  recipe.steps = {step};
  return recipe;
}

Artifact ArtifactOf(const std::vector<std::string>& entries) {
  Program program;
  program.name = "test.cu";
  program.architecture = "sm_90a";
  program.name_expressions = entries;
  return FakeArtifact(program);
}

std::vector<SizeBindings> SizesOf(const std::vector<int64_t>& ns) {
  std::vector<SizeBindings> sizes;
  for (const int64_t n : ns) sizes.push_back({{"n", n}});
  return sizes;
}

ProfileProblem CopyProblem(int64_t n) {
  return MakeProblem(n, CopyArguments(4), "dst", "copy_1d_reference<float>");
}

ProfileCandidate CopyCandidate(int64_t id, int64_t xblock, std::vector<int64_t> check_sizes,
                               int64_t alignment_bytes) {
  return MakeCandidate(id, absl::StrCat("copy_1d<float, ", xblock, ">"),
                       CopyArguments(alignment_bytes), xblock, check_sizes);
}

ProfileProblem ScaleProblem(int64_t n) {
  return MakeProblem(n, ScaleArguments(), "x", "scale_1d_reference<float>");
}

ProfileCandidate ScaleCandidate(int64_t id, int64_t xblock, std::vector<int64_t> check_sizes) {
  return MakeCandidate(id, absl::StrCat("scale_1d<float, ", xblock, ">"), ScaleArguments(), xblock,
                       check_sizes);
}

}  // namespace hone
