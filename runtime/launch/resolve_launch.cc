#include "runtime/launch/resolve_launch.h"

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/buffer_extent.h"
#include "runtime/launch/launch_limits.h"
#include "runtime/launch/scalar_encoding.h"

namespace hone {
namespace {

constexpr std::array<const char*, 3> kAxes{"x", "y", "z"};

PackedArgument PackBits(uint64_t bits, int size_bytes) {
  PackedArgument packed;
  packed.bytes.resize(static_cast<size_t>(size_bytes));
  // Little-endian hosts only, as CUDA's are: the low bytes come first.
  std::memcpy(packed.bytes.data(), &bits, packed.bytes.size());
  return packed;
}

// Resolves one recipe for one launch.
class Resolver {
 public:
  Resolver(const LaunchRecipe& recipe, const LaunchArguments& arguments)
      : recipe_(recipe), arguments_(arguments), bindings_(LaunchBindings(recipe, arguments)) {}

  absl::StatusOr<ResolvedLaunch> Run() && {
    HONE_RETURN_IF_ERROR(ZeroScratch());
    for (size_t i = 0; i < recipe_.steps.size(); ++i) {
      if (absl::Status status = ResolveStep(recipe_.steps[i]); !status.ok()) {
        return InContext(status, absl::StrCat("step ", i));
      }
    }
    return std::move(launch_);
  }

 private:
  absl::StatusOr<int64_t> Evaluate(const Expression& e, absl::string_view field) const {
    absl::StatusOr<int64_t> value = e.Evaluate(bindings_);
    if (!value.ok()) return InContext(value.status(), field);
    return value;
  }

  absl::Status ZeroScratch() {
    for (size_t i = 0; i < recipe_.arguments.size(); ++i) {
      const auto* scratch = std::get_if<RecipeScratch>(&recipe_.arguments[i].kind);
      if (scratch == nullptr || scratch->zeroed != ScratchZeroed::kEveryLaunch) continue;
      ResolvedStep step;
      HONE_ASSIGN_OR_RETURN(const int64_t bytes, ScratchBytes(*scratch, bindings_));
      if (bytes == 0) continue;
      HONE_ASSIGN_OR_RETURN(step.memset_address, Address(recipe_.arguments[i]));
      step.memset_bytes = static_cast<uint64_t>(bytes);
      launch_.steps.push_back(std::move(step));
    }
    return absl::OkStatus();
  }

  absl::Status ResolveStep(const RecipeStep& step) {
    if (step.when) {
      HONE_ASSIGN_OR_RETURN(const int64_t when, Evaluate(*step.when, "when"));
      if (when == 0) return absl::OkStatus();
    }
    return step.symbol.empty() ? ResolveMemset(step) : ResolveKernel(step);
  }

  absl::Status ResolveMemset(const RecipeStep& step) {
    if (!IsArgument(step.memset_argument)) return NoSuchArgument(step.memset_argument);
    const RecipeArgument& argument = recipe_.arguments[static_cast<size_t>(step.memset_argument)];
    HONE_ASSIGN_OR_RETURN(const int64_t whole, Bytes(argument));
    int64_t bytes = whole;
    if (step.memset_bytes) {
      HONE_ASSIGN_OR_RETURN(bytes, Evaluate(*step.memset_bytes, "memset.bytes"));
    }
    if (bytes < 0 || bytes > whole) {
      return absl::OutOfRangeError(
          absl::StrCat("memset.bytes is ", bytes, ", '", argument.name, "' has ", whole));
    }
    if (bytes == 0) return absl::OkStatus();
    ResolvedStep resolved;
    HONE_ASSIGN_OR_RETURN(resolved.memset_address, Address(argument));
    resolved.memset_bytes = static_cast<uint64_t>(bytes);
    resolved.memset_value = step.memset_value;
    launch_.steps.push_back(std::move(resolved));
    return absl::OkStatus();
  }

  absl::Status ResolveKernel(const RecipeStep& step) {
    ResolvedStep resolved;
    resolved.symbol = step.symbol;
    HONE_ASSIGN_OR_RETURN(const bool empty, ResolveShape(step.launch, resolved));
    if (empty) return absl::OkStatus();
    for (const int index : step.arguments) {
      if (!IsArgument(index)) return NoSuchArgument(index);
      HONE_ASSIGN_OR_RETURN(PackedArgument packed, Pack(index));
      resolved.arguments.push_back(std::move(packed));
    }
    // The edge is towards the kernel before this one in the same recipe; it must not be drawn to
    // whatever else the caller has in the stream.
    resolved.programmatic_dependent_launch = step.programmatic_dependent_launch &&
                                             !launch_.steps.empty() &&
                                             !launch_.steps.back().symbol.empty();
    launch_.steps.push_back(std::move(resolved));
    return absl::OkStatus();
  }

  // True: the grid has no blocks, so there is nothing to launch.
  absl::StatusOr<bool> ResolveShape(const LaunchShape& shape, ResolvedStep& step) const {
    bool empty = false;
    int64_t threads = 1;
    int64_t cluster_blocks = 1;
    for (size_t i = 0; i < 3; ++i) {
      HONE_ASSIGN_OR_RETURN(const int64_t grid, Extent("grid", shape.grid, i, 0, kGridMax[i]));
      HONE_ASSIGN_OR_RETURN(const int64_t block, Extent("block", shape.block, i, 1, kBlockMax[i]));
      HONE_ASSIGN_OR_RETURN(const int64_t cluster,
                            Extent("cluster", shape.cluster, i, 1, kClusterBlocksMax));
      if (grid % cluster != 0) {
        return absl::OutOfRangeError(absl::StrCat("grid_", kAxes[i], " is ", grid,
                                                  ", not a multiple of cluster_", kAxes[i], " ",
                                                  cluster));
      }
      empty |= grid == 0;
      threads *= block;
      cluster_blocks *= cluster;
      step.grid[i] = static_cast<uint32_t>(grid);
      step.block[i] = static_cast<uint32_t>(block);
      step.cluster[i] = static_cast<uint32_t>(cluster);
    }
    HONE_RETURN_IF_ERROR(InRange("threads per block", threads, 1, kThreadsPerBlockMax));
    HONE_RETURN_IF_ERROR(InRange("blocks per cluster", cluster_blocks, 1, kClusterBlocksMax));
    HONE_ASSIGN_OR_RETURN(const int64_t shared,
                          Evaluate(shape.dynamic_shared_bytes, "dynamic_shared_bytes"));
    HONE_RETURN_IF_ERROR(InRange("dynamic_shared_bytes", shared, 0, kSharedBytesMax));
    step.dynamic_shared_bytes = static_cast<uint32_t>(shared);
    return empty;
  }

  absl::StatusOr<int64_t> Extent(absl::string_view what, const std::array<Expression, 3>& values,
                                 size_t axis, int64_t min, int64_t max) const {
    const std::string field = absl::StrCat(what, "_", kAxes[axis]);
    HONE_ASSIGN_OR_RETURN(const int64_t value, Evaluate(values[axis], field));
    HONE_RETURN_IF_ERROR(InRange(field, value, min, max));
    return value;
  }

  static absl::Status InRange(absl::string_view what, int64_t value, int64_t min, int64_t max) {
    if (value >= min && value <= max) return absl::OkStatus();
    return absl::OutOfRangeError(
        absl::StrCat(what, " is ", value, ", it must be ", min, " to ", max));
  }

  bool IsArgument(int index) const {
    return index >= 0 && static_cast<size_t>(index) < recipe_.arguments.size();
  }
  absl::Status NoSuchArgument(int index) const {
    return absl::InvalidArgumentError(
        absl::StrCat("argument ", index, " of ", recipe_.arguments.size(), " does not exist"));
  }

  absl::StatusOr<PackedArgument> Pack(int index) {
    const RecipeArgument& argument = recipe_.arguments[static_cast<size_t>(index)];
    if (const auto* scalar = std::get_if<RecipeScalar>(&argument.kind)) {
      return PackScalar(argument.name, *scalar);
    }
    if (const auto* map = std::get_if<RecipeTensorMap>(&argument.kind)) {
      return PackTensorMap(index, argument.name, *map);
    }
    if (const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind)) {
      HONE_RETURN_IF_ERROR(CheckShape(argument.name, *buffer));
    }
    HONE_ASSIGN_OR_RETURN(const uint64_t address, Address(argument));
    return PackBits(address, sizeof(address));
  }

  absl::StatusOr<PackedArgument> PackScalar(const std::string& name, const RecipeScalar& scalar) {
    absl::StatusOr<uint64_t> bits = 0;
    if (scalar.value) {
      HONE_ASSIGN_OR_RETURN(const int64_t value,
                            Evaluate(*scalar.value, absl::StrCat("scalar '", name, "'")));
      bits = EncodeInteger(scalar.type, value);
    } else {
      const auto given = arguments_.scalars.find(name);
      if (given == arguments_.scalars.end()) {
        return absl::InvalidArgumentError(absl::StrCat("scalar '", name, "' is missing"));
      }
      bits = EncodeScalar(scalar.type, given->second);
    }
    if (!bits.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("scalar '", name, "': ", bits.status().message()));
    }
    return PackBits(*bits, SizeBytes(scalar.type));
  }

  absl::Status CheckShape(const std::string& name, const RecipeBuffer& buffer) const {
    const auto given = arguments_.buffers.find(name);
    if (given == arguments_.buffers.end() || given->second.shape.empty()) return absl::OkStatus();
    absl::StatusOr<BufferExtent> extent = EvaluateExtent(buffer, bindings_);
    if (!extent.ok()) return InContext(extent.status(), absl::StrCat("buffer '", name, "'"));
    if (extent->shape == given->second.shape) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("buffer '", name, "' has shape [", absl::StrJoin(given->second.shape, ", "),
                     "], these sizes need [", absl::StrJoin(extent->shape, ", "), "]"));
  }

  // Bytes of a buffer or scratch.
  absl::StatusOr<int64_t> Bytes(const RecipeArgument& argument) const {
    absl::StatusOr<int64_t> bytes =
        absl::InvalidArgumentError("neither a buffer nor scratch, it has no memory");
    if (const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind)) {
      bytes = BufferSpanBytes(*buffer, bindings_);
    } else if (const auto* scratch = std::get_if<RecipeScratch>(&argument.kind)) {
      bytes = ScratchBytes(*scratch, bindings_);
    }
    if (!bytes.ok()) {
      return InContext(bytes.status(), absl::StrCat("argument '", argument.name, "'"));
    }
    return bytes;
  }

  // Of a buffer or scratch. 0 only for optional buffers and for what has no bytes.
  absl::StatusOr<uint64_t> Address(const RecipeArgument& argument) const {
    uint64_t address = 0;
    const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind);
    if (buffer != nullptr) {
      const auto given = arguments_.buffers.find(argument.name);
      if (given != arguments_.buffers.end()) address = given->second.address;
    } else {
      const auto given = arguments_.scratch.find(argument.name);
      if (given != arguments_.scratch.end()) address = given->second;
    }
    if (address != 0 || (buffer != nullptr && buffer->optional)) return address;
    HONE_ASSIGN_OR_RETURN(const int64_t bytes, Bytes(argument));
    if (bytes == 0) return address;
    return absl::InvalidArgumentError(absl::StrCat(buffer != nullptr ? "buffer '" : "scratch '",
                                                   argument.name, "' is missing or null; ", bytes,
                                                   " bytes are needed"));
  }

  absl::StatusOr<PackedArgument> PackTensorMap(int index, const std::string& name,
                                               const RecipeTensorMap& map) {
    PackedArgument packed;
    packed.bytes.resize(kTensorMapBytes);
    const auto known = tensor_maps_.find(index);
    if (known != tensor_maps_.end()) {
      packed.tensor_map = known->second;
      return packed;
    }
    absl::StatusOr<ResolvedTensorMap> resolved = ResolveTensorMap(map);
    if (!resolved.ok()) {
      return InContext(resolved.status(), absl::StrCat("tensor map '", name, "'"));
    }
    packed.tensor_map = static_cast<int>(launch_.tensor_maps.size());
    tensor_maps_[index] = packed.tensor_map;
    launch_.tensor_maps.push_back(*std::move(resolved));
    return packed;
  }

  absl::StatusOr<ResolvedTensorMap> ResolveTensorMap(const RecipeTensorMap& map) const {
    ResolvedTensorMap resolved;
    resolved.recipe = &map;
    const auto given = arguments_.buffers.find(map.buffer);
    if (given == arguments_.buffers.end() || given->second.address == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer '", map.buffer, "' is missing or null"));
    }
    resolved.address = given->second.address;
    const size_t rank = map.dims.size();
    if (rank < 1 || rank > kTensorMapRankMax || map.strides_bytes.size() != rank - 1 ||
        map.box.size() != rank ||
        (!map.element_strides.empty() && map.element_strides.size() != rank)) {
      return absl::InvalidArgumentError(
          absl::StrCat(rank, " dims need ", rank - 1, " strides_bytes, ", rank, " box and ", rank,
                       " or no element_strides; ranks are 1 to ", kTensorMapRankMax));
    }
    HONE_RETURN_IF_ERROR(Positive(map.dims, "dims", kTensorMapDimMax, resolved.dims));
    HONE_RETURN_IF_ERROR(Positive(map.strides_bytes, "strides_bytes", kTensorMapStrideBytesMax,
                                  resolved.strides_bytes));
    HONE_RETURN_IF_ERROR(Positive(map.box, "box", kTensorMapBoxMax, resolved.box));
    HONE_RETURN_IF_ERROR(Positive(map.element_strides, "element_strides",
                                  kTensorMapElementStrideMax, resolved.element_strides));
    if (resolved.element_strides.empty()) resolved.element_strides.assign(rank, 1);
    return resolved;
  }

  template <typename T>
  absl::Status Positive(const std::vector<Expression>& list, absl::string_view field, int64_t max,
                        std::vector<T>& values) const {
    for (const Expression& e : list) {
      const std::string where = absl::StrCat(field, "[", values.size(), "]");
      HONE_ASSIGN_OR_RETURN(const int64_t value, Evaluate(e, where));
      HONE_RETURN_IF_ERROR(InRange(where, value, 1, max));
      values.push_back(static_cast<T>(value));
    }
    return absl::OkStatus();
  }

  const LaunchRecipe& recipe_;
  const LaunchArguments& arguments_;
  const SizeBindings bindings_;
  ResolvedLaunch launch_;
  std::map<int, int> tensor_maps_;  // argument -> index in launch_.tensor_maps
};

}  // namespace

absl::StatusOr<ResolvedLaunch> ResolveLaunch(const LaunchRecipe& recipe,
                                             const LaunchArguments& arguments) {
  return Resolver(recipe, arguments).Run();
}

}  // namespace hone
