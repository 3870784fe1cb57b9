#include "runtime/device/case_buffers.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/buffer_extent.h"

namespace hone {
namespace {

uint64_t SeedOf(const std::string& name) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

absl::Status SetFill(const BufferInit& init, const SizeBindings& bindings, CaseBuffer& buffer) {
  buffer.generated = init.kind == InitKind::kGenerator;
  if (buffer.generated) return absl::OkStatus();
  buffer.fill.kind = init.kind;
  buffer.fill.skew = init.skew;
  HONE_ASSIGN_OR_RETURN(buffer.fill.low, init.low.Evaluate(bindings));
  HONE_ASSIGN_OR_RETURN(buffer.fill.high, init.high.Evaluate(bindings));
  if (init.kind == InitKind::kUniformInt && buffer.fill.high < buffer.fill.low) {
    return absl::InvalidArgumentError(
        absl::StrCat("init_high is ", buffer.fill.high, ", below init_low ", buffer.fill.low));
  }
  return absl::OkStatus();
}

absl::StatusOr<CaseBuffer> EvaluateBuffer(const std::string& name, const RecipeBuffer& recipe,
                                          const SizeBindings& bindings) {
  HONE_ASSIGN_OR_RETURN(const BufferExtent extent, EvaluateExtent(recipe, bindings));
  CaseBuffer buffer;
  buffer.name = name;
  buffer.dtype = recipe.dtype;
  buffer.access = recipe.access;
  HONE_ASSIGN_OR_RETURN(buffer.bytes, SpanBytes(extent, recipe.dtype));
  buffer.elements = buffer.bytes / SizeBytes(recipe.dtype);
  buffer.own_elements = 1;
  for (const int64_t extent_of_dimension : extent.shape) buffer.own_elements *= extent_of_dimension;
  buffer.shape.assign(extent.shape.begin(), extent.shape.end());
  buffer.strides.assign(extent.strides.begin(), extent.strides.end());
  buffer.fill.kind = InitKind::kNormal;
  buffer.fill.dtype = recipe.dtype;
  buffer.fill.seed = SeedOf(name);
  return buffer;
}

}  // namespace

std::string CaseSpec::Label() const {
  std::string label =
      sizes.empty() ? "declared sizes" : absl::StrJoin(sizes, " ", absl::PairFormatter("="));
  if (!absent.empty()) absl::StrAppend(&label, " without ", absl::StrJoin(absent, " and "));
  return label;
}

absl::StatusOr<std::vector<CaseBuffer>> EvaluateBuffers(const ProfileProblem& problem,
                                                        const SizeBindings& facts,
                                                        const CaseSpec& spec) {
  LaunchArguments arguments;
  arguments.sizes = spec.sizes;
  arguments.sizes.insert(facts.begin(), facts.end());
  arguments.scalars = problem.check.scalar_samples;
  const SizeBindings bindings = LaunchBindings(problem.arguments, arguments);
  std::vector<CaseBuffer> buffers;
  for (const RecipeArgument& argument : problem.arguments.arguments) {
    const auto* recipe = std::get_if<RecipeBuffer>(&argument.kind);
    if (recipe == nullptr || spec.absent.contains(argument.name)) continue;
    absl::StatusOr<CaseBuffer> buffer = EvaluateBuffer(argument.name, *recipe, bindings);
    absl::Status status = buffer.status();
    const auto init =
        std::find_if(problem.check.inits.begin(), problem.check.inits.end(),
                     [&](const BufferInit& i) { return i.argument == argument.name; });
    if (status.ok() && init != problem.check.inits.end())
      status = SetFill(*init, bindings, *buffer);
    if (!status.ok()) {
      return InContext(status, absl::StrCat("buffer '", argument.name, "' at ", spec.Label()));
    }
    buffers.push_back(*std::move(buffer));
  }
  return buffers;
}

GuardedBuffer Guarded(const CaseBuffer& buffer, int64_t alignment) {
  return {.name = buffer.name,
          .bytes = buffer.bytes,
          .alignment = alignment,
          .guard_value = buffer.access == Access::kRead ? 0xff : 0xb7};
}

int64_t LeastAlignment(const LaunchRecipe& recipe, const CaseBuffer& buffer) {
  const int64_t own = SizeBytes(buffer.dtype);
  for (const RecipeArgument& argument : recipe.arguments) {
    const auto* found = std::get_if<RecipeBuffer>(&argument.kind);
    if (found != nullptr && argument.name == buffer.name) {
      return std::lcm(own, std::max<int64_t>(1, found->alignment_bytes));
    }
  }
  return own;
}

}  // namespace hone
