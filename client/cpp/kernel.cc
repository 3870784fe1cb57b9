#include "client/cpp/hone/kernel.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/cpu_modules.h"
#include "client/cpp/cuda_modules.h"
#include "client/cpp/kernel_state.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/recipe_proto.h"

namespace hone {
namespace {

constexpr absl::string_view kHostFormat = "HOST_ELF";
constexpr absl::string_view kDevicePrefix = "device.";

bool IsForCpu(const Kernel::Variant& variant) { return variant.artifact.format() == kHostFormat; }

bool MentionsDevice(const Expression& e) {
  for (const std::string& name : e.Variables()) {
    if (absl::StartsWith(name, kDevicePrefix)) return true;
  }
  return false;
}

bool MentionsDevice(const LaunchRecipe& recipe) {
  const auto any = [](const auto& list) {
    for (const Expression& e : list) {
      if (MentionsDevice(e)) return true;
    }
    return false;
  };
  if (any(recipe.guards)) return true;
  for (const RecipeStep& step : recipe.steps) {
    if (any(step.launch.grid) || any(step.launch.block) || any(step.launch.cluster) ||
        MentionsDevice(step.launch.dynamic_shared_bytes) ||
        (step.when && MentionsDevice(*step.when)) ||
        (step.memset_bytes && MentionsDevice(*step.memset_bytes))) {
      return true;
    }
  }
  for (const RecipeArgument& argument : recipe.arguments) {
    if (const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind)) {
      if (any(buffer->shape) || any(buffer->strides)) return true;
    } else if (const auto* scalar = std::get_if<RecipeScalar>(&argument.kind)) {
      if (scalar->value && MentionsDevice(*scalar->value)) return true;
    } else if (const auto* scratch = std::get_if<RecipeScratch>(&argument.kind)) {
      if (MentionsDevice(scratch->bytes)) return true;
    } else if (const auto* map = std::get_if<RecipeTensorMap>(&argument.kind)) {
      if (any(map->dims) || any(map->strides_bytes) || any(map->box) || any(map->element_strides)) {
        return true;
      }
    }
  }
  return false;
}

// INVALID_ARGUMENT when `name` is none of the kernel's; `what` is "size", "buffer", ...
absl::Status CheckName(absl::string_view what, const std::string& name,
                       const std::vector<std::string>& names) {
  for (const std::string& known : names) {
    if (known == name) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the kernel has no ", what, " '", name, "'; it has ",
                   names.empty() ? std::string("none") : absl::StrJoin(names, ", ")));
}

template <typename Kind>
std::vector<std::string> NamesOf(const LaunchRecipe& recipe) {
  std::vector<std::string> names;
  for (const RecipeArgument& argument : recipe.arguments) {
    if (std::holds_alternative<Kind>(argument.kind)) names.push_back(argument.name);
  }
  return names;
}

// A typing error in a name must not launch with an argument missing.
absl::Status CheckNames(const LaunchRecipe& recipe, const LaunchArguments& arguments) {
  for (const auto& [name, size] : arguments.sizes) {
    if (absl::StartsWith(name, kDevicePrefix)) continue;
    HONE_RETURN_IF_ERROR(CheckName("dynamic size", name, recipe.dynamic_sizes));
  }
  for (const std::string& name : recipe.dynamic_sizes) {
    if (arguments.sizes.count(name) == 0) {
      return absl::InvalidArgumentError(absl::StrCat("size '", name, "' is missing"));
    }
  }
  for (const auto& [name, buffer] : arguments.buffers) {
    HONE_RETURN_IF_ERROR(CheckName("buffer", name, NamesOf<RecipeBuffer>(recipe)));
  }
  for (const auto& [name, value] : arguments.scalars) {
    HONE_RETURN_IF_ERROR(CheckName("scalar", name, NamesOf<RecipeScalar>(recipe)));
  }
  for (const auto& [name, address] : arguments.scratch) {
    HONE_RETURN_IF_ERROR(CheckName("scratch", name, NamesOf<RecipeScratch>(recipe)));
  }
  return absl::OkStatus();
}

absl::Status CheckLoadable(const CudaDriver& driver, const Kernel::Variant& variant) {
  if (IsForCpu(variant)) {
    return absl::FailedPreconditionError(
        "this kernel is for the CPU reference device, not for a CUDA stream; use LaunchOnCpu");
  }
  int version = 0;
  HONE_CUDA_RETURN_IF_ERROR(driver, DriverGetVersion(&version));
  if (version >= variant.artifact.min_driver()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the binary needs a CUDA driver of version ", variant.artifact.min_driver(),
                   " or later, this one is ", version,
                   "; ask for the kernel with target.driver_version = ", version));
}

// Finds every kernel of the variant, so that no launch has to.
absl::Status FindFunctions(CudaModule& module, const LaunchRecipe& recipe) {
  for (const RecipeStep& step : recipe.steps) {
    if (step.symbol.empty()) continue;
    HONE_RETURN_IF_ERROR(module.Function(step.symbol).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<CudaModule*> LoadVariant(const CudaDriver& driver, uint64_t context,
                                        const Kernel::Variant& variant) {
  HONE_RETURN_IF_ERROR(CheckLoadable(driver, variant));
  HONE_ASSIGN_OR_RETURN(
      CudaModule* const module,
      CudaModules::Get().Load(driver, context, variant.artifact.sha256(), variant.bytes));
  HONE_RETURN_IF_ERROR(FindFunctions(*module, variant.recipe));
  return module;
}

bool IsCapturing(const CudaDriver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // The legacy stream answers with an error while another stream is captured.
  return driver.StreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

absl::StatusOr<Kernel> MakeKernel(v1::GetKernelResponse response,
                                  const std::map<std::string, std::string>& bytes,
                                  bool cpu_device_enabled) {
  auto state = std::make_shared<Kernel::State>();
  state->cpu_device_enabled = cpu_device_enabled;
  for (v1::KernelVariant& variant : *response.mutable_kernel()->mutable_variants()) {
    absl::StatusOr<LaunchRecipe> recipe = FromProto(variant.recipe());
    if (!recipe.ok()) {
      return absl::InternalError(absl::StrCat("the daemon's recipe for config '", variant.config(),
                                              "' cannot be read: ", recipe.status().message()));
    }
    state->uses_device_facts |= MentionsDevice(*recipe);
    variant.clear_artifact_bytes();
    state->variants.push_back({.artifact = variant.artifact(),
                               .bytes = bytes.at(variant.artifact().sha256()),
                               .config = variant.config(),
                               .recipe = *std::move(recipe)});
  }
  if (state->variants.empty()) {
    return absl::InternalError("the daemon's answer holds no variant of the kernel");
  }
  state->response = std::move(response);
  return Kernel(std::move(state));
}

Kernel::Kernel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const v1::GetKernelResponse& Kernel::response() const { return state_->response; }
const std::vector<Kernel::Variant>& Kernel::variants() const { return state_->variants; }
const std::vector<std::string>& Kernel::dynamic_sizes() const {
  return state_->variants.front().recipe.dynamic_sizes;
}

absl::StatusOr<int> Kernel::ChooseVariant(const LaunchArguments& arguments) const {
  HONE_RETURN_IF_ERROR(CheckNames(variants().front().recipe, arguments));
  std::string reasons;
  for (size_t i = 0; i < variants().size(); ++i) {
    const absl::Status status = CheckGuards(variants()[i].recipe, arguments);
    if (status.ok()) return static_cast<int>(i);
    absl::StrAppend(&reasons, "\n  ", variants()[i].config, ": ", status.message());
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no variant of the kernel accepts this launch:", reasons));
}

absl::StatusOr<int64_t> Kernel::ScratchBytes(const std::string& name,
                                             const LaunchArguments& arguments) const {
  HONE_ASSIGN_OR_RETURN(const int index, ChooseVariant(arguments));
  for (const RecipeArgument& argument : variants()[static_cast<size_t>(index)].recipe.arguments) {
    const auto* scratch = std::get_if<RecipeScratch>(&argument.kind);
    if (scratch != nullptr && argument.name == name) {
      return hone::ScratchBytes(*scratch, arguments.sizes);
    }
  }
  return absl::NotFoundError(absl::StrCat("the kernel has no scratch '", name, "'"));
}

absl::Status Kernel::Prepare() const {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  HONE_ASSIGN_OR_RETURN(const uint64_t context, CudaModules::CurrentContext(*driver));
  for (const Variant& variant : variants()) {
    HONE_RETURN_IF_ERROR(LoadVariant(*driver, context, variant).status());
  }
  return absl::OkStatus();
}

absl::Status Kernel::Launch(const LaunchArguments& arguments, CUstream_st* stream) const {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  HONE_ASSIGN_OR_RETURN(const uint64_t context, CudaModules::CurrentContext(*driver));
  LaunchArguments with_facts;
  const LaunchArguments* complete = &arguments;
  if (state_->uses_device_facts) {
    HONE_ASSIGN_OR_RETURN(SizeBindings facts, CudaModules::Get().DeviceFacts(*driver, context));
    with_facts = arguments;
    with_facts.sizes.merge(facts);
    complete = &with_facts;
  }
  HONE_ASSIGN_OR_RETURN(const int index, ChooseVariant(*complete));
  const Variant& variant = variants()[static_cast<size_t>(index)];
  HONE_ASSIGN_OR_RETURN(const ResolvedLaunch launch, ResolveLaunch(variant.recipe, *complete));
  CudaModule* module = CudaModules::Get().Find(context, variant.artifact.sha256());
  if (module == nullptr) {
    if (IsCapturing(*driver, stream)) {
      return absl::FailedPreconditionError(
          "the kernel is not loaded in this context yet, and loading during a stream capture would "
          "end the capture; call Prepare before capture");
    }
    HONE_ASSIGN_OR_RETURN(module, LoadVariant(*driver, context, variant));
  }
  return LaunchOnStream(*driver, *module, launch, stream);
}

absl::Status Kernel::LaunchOnCpu(const LaunchArguments& arguments) const {
  if (!state_->cpu_device_enabled) {
    return absl::FailedPreconditionError(
        "the CPU reference device is not enabled in this client; set "
        "ClientOptions.enable_cpu_device");
  }
  if (!IsForCpu(variants().front())) {
    return absl::FailedPreconditionError(absl::StrCat("this kernel is for ",
                                                      response().kernel().architecture(),
                                                      ", not for the CPU reference device"));
  }
  HONE_ASSIGN_OR_RETURN(const int index, ChooseVariant(arguments));
  const Variant& variant = variants()[static_cast<size_t>(index)];
  HONE_ASSIGN_OR_RETURN(const ResolvedLaunch launch, ResolveLaunch(variant.recipe, arguments));
  return CpuModules::Get().Launch(variant.artifact.sha256(), variant.bytes, launch);
}

}  // namespace hone
