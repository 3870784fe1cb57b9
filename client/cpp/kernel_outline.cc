#include "client/cpp/kernel_outline.h"

#include <algorithm>
#include <array>
#include <variant>

#include "absl/strings/str_cat.h"

namespace hone {

KernelOutline KernelOutline::Of(const Kernel& kernel) {
  KernelOutline outline;
  const std::vector<std::string>& sizes = kernel.names().sizes;
  for (const RecipeArgument& argument : kernel.variants().front().recipe.arguments) {
    const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind);
    if (buffer == nullptr) continue;
    for (size_t i = 0; i < buffer->shape.size(); ++i) {
      const Expression& extent = buffer->shape[i];
      if (extent.op() != Expression::Op::kVar) continue;
      const auto size = std::find(sizes.begin(), sizes.end(), extent.variable());
      if (size == sizes.end()) continue;
      outline.size_sources.push_back({.size = static_cast<size_t>(size - sizes.begin()),
                                      .buffer = outline.buffers.size(),
                                      .dimension = i});
    }
    outline.buffers.push_back({.name = argument.name,
                               .dtype = buffer->dtype,
                               .access = buffer->access,
                               .rank = static_cast<int>(buffer->shape.size()),
                               .optional = buffer->optional});
  }
  return outline;
}

absl::Status SizesFromShapes(const KernelOutline& outline, const LaunchNames& names,
                             const PlanBuffer* buffers, int64_t* sizes) {
  // The source that gave each size, for the message.
  std::array<const SizeSource*, kPlanSlotsMax> given{};
  for (const SizeSource& source : outline.size_sources) {
    const PlanBuffer& buffer = buffers[source.buffer];
    if (buffer.shape == nullptr || buffer.rank < 0) continue;
    const BufferOutline& expected = outline.buffers[source.buffer];
    if (buffer.rank != expected.rank) {
      return absl::InvalidArgumentError(absl::StrCat("buffer '", expected.name, "' has ",
                                                     buffer.rank, " dimensions, the kernel takes ",
                                                     expected.rank));
    }
    const int64_t extent = buffer.shape[source.dimension];
    if (source.size >= given.size()) continue;
    if (const SizeSource* before = given[source.size]; before == nullptr) {
      given[source.size] = &source;
      sizes[source.size] = extent;
    } else if (sizes[source.size] != extent) {
      return absl::InvalidArgumentError(absl::StrCat(
          "size '", names.sizes[source.size], "' is ", sizes[source.size], " in dimension ",
          before->dimension, " of '", outline.buffers[before->buffer].name, "', but ", extent,
          " in dimension ", source.dimension, " of '", expected.name, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace hone
