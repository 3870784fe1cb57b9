// CheckGuards: may this variant run on these sizes and pointers?
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/buffer_extent.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {
namespace {

// A given, non-null buffer with its extent in this launch.
struct LiveBuffer {
  const std::string* name;
  const RecipeBuffer* recipe;
  const BufferArgument* given;
  BufferExtent extent;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::Status CheckAlignment(const LiveBuffer& buffer) {
  const auto alignment = static_cast<uint64_t>(buffer.recipe->alignment_bytes);
  if (alignment <= 1 || buffer.given->address % alignment == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("buffer '", *buffer.name, "' at 0x",
                                                    absl::Hex(buffer.given->address),
                                                    " is not a multiple of ", alignment, " bytes"));
}

absl::Status CheckStrides(const LiveBuffer& buffer) {
  const std::vector<int64_t>& given = buffer.given->strides;
  const std::vector<int64_t>& needed = buffer.extent.strides;
  if (given.empty() || buffer.begin == buffer.end) return absl::OkStatus();
  if (given.size() != needed.size()) {
    return absl::FailedPreconditionError(absl::StrCat("buffer '", *buffer.name, "' has ",
                                                      given.size(), " strides, this variant needs ",
                                                      needed.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    // With one element along a dimension its stride is never used.
    if (buffer.extent.shape[i] <= 1 || given[i] == needed[i]) continue;
    return absl::FailedPreconditionError(absl::StrCat("buffer '", *buffer.name, "' has stride ",
                                                      given[i], " in dimension ", i,
                                                      ", this variant needs ", needed[i]));
  }
  return absl::OkStatus();
}

bool MayAlias(const LiveBuffer& a, const LiveBuffer& b) {
  return absl::c_linear_search(a.recipe->may_alias, *b.name) ||
         absl::c_linear_search(b.recipe->may_alias, *a.name);
}

absl::Status CheckAliasing(const LiveBuffer& a, const LiveBuffer& b) {
  const bool written = a.recipe->access != Access::kRead || b.recipe->access != Access::kRead;
  const bool overlap = a.begin < b.end && b.begin < a.end;
  if (!written || !overlap) return absl::OkStatus();
  if (!MayAlias(a, b)) {
    return absl::FailedPreconditionError(
        absl::StrCat("buffers '", *a.name, "' and '", *b.name, "' overlap and must not"));
  }
  if (a.begin != b.begin) {
    return absl::FailedPreconditionError(
        absl::StrCat("buffers '", *a.name, "' and '", *b.name,
                     "' may be the same memory but must then begin at the same address"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LiveBuffer>> LiveBuffers(const LaunchRecipe& recipe,
                                                    const LaunchArguments& arguments,
                                                    const SizeBindings& bindings) {
  std::vector<LiveBuffer> live;
  for (const RecipeArgument& argument : recipe.arguments) {
    const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind);
    const auto given = arguments.buffers.find(argument.name);
    if (buffer == nullptr || given == arguments.buffers.end() || given->second.address == 0) {
      continue;
    }
    const auto fail = [&](const absl::Status& status) {
      return InContext(status, absl::StrCat("buffer '", argument.name, "'"));
    };
    absl::StatusOr<BufferExtent> extent = EvaluateExtent(*buffer, bindings);
    if (!extent.ok()) return fail(extent.status());
    const absl::StatusOr<int64_t> span = SpanBytes(*extent, buffer->dtype);
    if (!span.ok()) return fail(span.status());
    const uint64_t begin = given->second.address;
    live.push_back({&argument.name, buffer, &given->second, *std::move(extent), begin,
                    begin + static_cast<uint64_t>(*span)});
  }
  return live;
}

}  // namespace

absl::Status CheckGuards(const LaunchRecipe& recipe, const LaunchArguments& arguments) {
  const SizeBindings bindings = LaunchBindings(recipe, arguments);
  for (const Expression& guard : recipe.guards) {
    const absl::StatusOr<int64_t> holds = guard.Evaluate(bindings);
    if (!holds.ok()) {
      return InContext(holds.status(), absl::StrCat("guard '", guard.ToString(), "'"));
    }
    if (*holds == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("guard '", guard.ToString(), "' does not hold"));
    }
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<LiveBuffer> live,
                        LiveBuffers(recipe, arguments, bindings));
  for (size_t i = 0; i < live.size(); ++i) {
    HONE_RETURN_IF_ERROR(CheckAlignment(live[i]));
    HONE_RETURN_IF_ERROR(CheckStrides(live[i]));
    for (size_t j = 0; j < i; ++j) HONE_RETURN_IF_ERROR(CheckAliasing(live[j], live[i]));
  }
  return absl::OkStatus();
}

}  // namespace hone
