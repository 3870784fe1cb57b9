#include "client/cpp/hone/kernel.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/cpu_modules.h"
#include "client/cpp/cuda_modules.h"
#include "client/cpp/kernel_contexts.h"
#include "client/cpp/kernel_state.h"
#include "client/cpp/launch_recorder.h"
#include "client/cpp/stream_capture.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/buffer_extent.h"
#include "runtime/launch/launch_plan.h"
#include "runtime/launch/plan_launcher.h"
#include "runtime/launch/recipe_proto.h"

namespace hone {
namespace {

constexpr absl::string_view kHostFormat = "HOST_ELF";
constexpr absl::string_view kDevicePrefix = "device.";

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
std::vector<std::string> ArgumentNames(const LaunchRecipe& recipe) {
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
    HONE_RETURN_IF_ERROR(CheckName("buffer", name, ArgumentNames<RecipeBuffer>(recipe)));
  }
  for (const auto& [name, value] : arguments.scalars) {
    HONE_RETURN_IF_ERROR(CheckName("scalar", name, ArgumentNames<RecipeScalar>(recipe)));
  }
  for (const auto& [name, address] : arguments.scratch) {
    HONE_RETURN_IF_ERROR(CheckName("scratch", name, ArgumentNames<RecipeScratch>(recipe)));
  }
  return absl::OkStatus();
}

absl::Status NotLoadedInCapture() {
  return absl::FailedPreconditionError(
      "the kernel is not loaded in this context yet, and loading during a stream capture would end "
      "the capture; call Prepare before capture");
}

// A launch by names, by position; on the stack unless there are very many.
class InputsByPosition {
 public:
  // False when names are missing or unknown, or lists have lengths that PlanInputs cannot say: only
  // the launch by names has words for that. REQUIRES: `arguments` outlives this.
  bool Fill(const LaunchNames& names, const LaunchArguments& arguments) {
    if (arguments.sizes.size() != names.sizes.size() ||
        arguments.scalars.size() != names.scalars.size()) {
      return false;
    }
    for (const std::string& name : names.sizes) {
      const auto given = arguments.sizes.find(name);
      if (given == arguments.sizes.end()) return false;
      sizes_.push_back(given->second);
    }
    for (const std::string& name : names.scalars) {
      const auto given = arguments.scalars.find(name);
      if (given == arguments.scalars.end()) return false;
      scalars_.push_back(given->second);
    }
    size_t known = 0;
    for (const std::string& name : names.scratch) {
      const auto given = arguments.scratch.find(name);
      const bool found = given != arguments.scratch.end();
      scratch_.push_back(found ? given->second : 0);
      known += found ? 1 : 0;
    }
    return known == arguments.scratch.size() && FillBuffers(names, arguments);
  }

  PlanInputs inputs() const {
    return {.sizes = sizes_.data(),
            .buffers = buffers_.data(),
            .scalars = scalars_.data(),
            .scratch = scratch_.data()};
  }

 private:
  bool FillBuffers(const LaunchNames& names, const LaunchArguments& arguments) {
    size_t known = 0;
    for (const std::string& name : names.buffers) {
      PlanBuffer& buffer = buffers_.emplace_back();
      const auto given = arguments.buffers.find(name);
      if (given == arguments.buffers.end()) continue;
      ++known;
      const BufferArgument& argument = given->second;
      const size_t rank = argument.shape.size(), strides = argument.strides.size();
      if (rank != 0 && strides != 0 && rank != strides) return false;
      buffer.address = argument.address;
      if (rank != 0) buffer.shape = argument.shape.data();
      if (strides != 0) buffer.strides = argument.strides.data();
      buffer.rank = static_cast<int>(std::max(rank, strides));
    }
    return known == arguments.buffers.size();
  }

  absl::InlinedVector<int64_t, 8> sizes_;
  absl::InlinedVector<PlanBuffer, 8> buffers_;
  absl::InlinedVector<double, 8> scalars_;
  absl::InlinedVector<uint64_t, 8> scratch_;
};

}  // namespace

absl::StatusOr<Kernel> MakeKernel(v1::GetKernelResponse response,
                                  const std::map<std::string, std::string>& bytes,
                                  bool cpu_device_enabled, bool from_pack) {
  auto state = std::make_shared<Kernel::State>();
  state->cpu_device_enabled = cpu_device_enabled;
  state->from_pack = from_pack;
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
  state->names = NamesOf(state->variants.front().recipe);
  if (!state->uses_device_facts) state->plans = PlansOf(state->variants, state->names, {});
  state->contexts.emplace(&state->variants, &state->names,
                          state->uses_device_facts ? nullptr : &state->plans);
  state->response = std::move(response);
  return Kernel(std::move(state));
}

bool IsForCpu(const Kernel::Variant& variant) { return variant.artifact.format() == kHostFormat; }

Kernel::Kernel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

Kernel Kernel::Recorded(std::shared_ptr<const LaunchRecorder> recorder) const {
  Kernel recorded = *this;
  recorded.recorder_ = std::move(recorder);
  return recorded;
}

const v1::GetKernelResponse& Kernel::response() const { return state_->response; }
bool Kernel::from_pack() const { return state_->from_pack; }
const std::vector<Kernel::Variant>& Kernel::variants() const { return state_->variants; }
const std::vector<std::string>& Kernel::dynamic_sizes() const { return state_->names.sizes; }
const LaunchNames& Kernel::names() const { return state_->names; }

absl::StatusOr<int> Kernel::ChooseVariant(const LaunchArguments& arguments) const {
  InputsByPosition by_position;
  if (by_position.Fill(state_->names, arguments)) {
    const std::optional<int> chosen = ChooseByPlan(by_position.inputs());
    if (chosen) return *chosen;
  }
  return ChooseByName(WithDeviceFacts(arguments));
}

absl::StatusOr<int> Kernel::ChooseVariant(const PlanInputs& inputs) const {
  const std::optional<int> chosen = ChooseByPlan(inputs);
  if (chosen) return *chosen;
  return ChooseByName(WithDeviceFacts(ArgumentsOf(state_->names, inputs)));
}

std::optional<int> Kernel::ChooseByPlan(const PlanInputs& inputs) const {
  for (size_t i = 0; i < state_->plans.size(); ++i) {
    const std::optional<LaunchPlan>& plan = state_->plans[i];
    if (!plan) return std::nullopt;
    if (plan->Accepts(inputs)) return static_cast<int>(i);
  }
  return std::nullopt;
}

LaunchArguments Kernel::WithDeviceFacts(LaunchArguments arguments) const {
  if (!state_->uses_device_facts) return arguments;
  const auto driver = CudaDriver::Get();
  if (!driver.ok()) return arguments;
  const auto context = CudaModules::CurrentContext(**driver);
  if (!context.ok()) return arguments;
  const auto facts = CudaModules::Get().DeviceFacts(**driver, *context);
  // Without them the expressions that need them say so.
  if (facts.ok()) arguments.sizes.insert(facts->begin(), facts->end());
  return arguments;
}

absl::StatusOr<int> Kernel::ChooseByName(const LaunchArguments& arguments) const {
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
  const LaunchArguments complete = WithDeviceFacts(arguments);
  HONE_ASSIGN_OR_RETURN(const int index, ChooseByName(complete));
  const LaunchRecipe& recipe = variants()[static_cast<size_t>(index)].recipe;
  for (const RecipeArgument& argument : recipe.arguments) {
    const auto* scratch = std::get_if<RecipeScratch>(&argument.kind);
    if (scratch != nullptr && argument.name == name) {
      return hone::ScratchBytes(*scratch, LaunchBindings(recipe, complete));
    }
  }
  return absl::NotFoundError(absl::StrCat("the kernel has no scratch '", name, "'"));
}

absl::StatusOr<int64_t> Kernel::ScratchBytes(size_t position, const PlanInputs& inputs) const {
  const std::vector<std::string>& scratch = state_->names.scratch;
  if (position >= scratch.size()) {
    return absl::NotFoundError(
        absl::StrCat("scratch ", position, ": the kernel has ", scratch.size()));
  }
  return ScratchBytes(scratch[position], ArgumentsOf(state_->names, inputs));
}

absl::Status Kernel::Prepare() const {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  HONE_ASSIGN_OR_RETURN(const uint64_t context, CudaModules::CurrentContext(*driver));
  HONE_ASSIGN_OR_RETURN(KernelInContext* const here, state_->contexts->FindOrAdd(*driver, context));
  for (size_t i = 0; i < variants().size(); ++i) {
    HONE_RETURN_IF_ERROR(state_->contexts->Load(*driver, *here, i).status());
  }
  return absl::OkStatus();
}

absl::Status Kernel::Launch(const PlanInputs& inputs, CUstream_st* stream) const {
  if (recorder_ == nullptr) [[likely]] {
    return LaunchUnseen(inputs, stream);
  }
  return recorder_->Record(
      inputs, {.stream = stream}, [&] { return ChooseVariant(inputs).ok(); },
      [&] { return LaunchUnseen(inputs, stream); });
}

absl::Status Kernel::Launch(const LaunchArguments& arguments, CUstream_st* stream) const {
  if (recorder_ == nullptr) [[likely]] {
    return LaunchUnseen(arguments, stream);
  }
  InputsByPosition by_position;
  if (!by_position.Fill(state_->names, arguments)) return LaunchUnseen(arguments, stream);
  return recorder_->Record(
      by_position.inputs(), {.stream = stream}, [&] { return ChooseVariant(arguments).ok(); },
      [&] { return LaunchUnseen(arguments, stream); });
}

absl::Status Kernel::LaunchUnseen(const PlanInputs& inputs, CUstream_st* stream) const {
  HONE_ASSIGN_OR_RETURN(const bool launched, LaunchByPlan(inputs, stream));
  if (launched) return absl::OkStatus();
  return LaunchByName(ArgumentsOf(state_->names, inputs), stream);
}

absl::Status Kernel::LaunchUnseen(const LaunchArguments& arguments, CUstream_st* stream) const {
  InputsByPosition by_position;
  if (by_position.Fill(state_->names, arguments)) {
    HONE_ASSIGN_OR_RETURN(const bool launched, LaunchByPlan(by_position.inputs(), stream));
    if (launched) return absl::OkStatus();
  }
  return LaunchByName(arguments, stream);
}

absl::StatusOr<bool> Kernel::LaunchByPlan(const PlanInputs& inputs, CUstream_st* stream) const {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  HONE_ASSIGN_OR_RETURN(const uint64_t context, CudaModules::CurrentContext(*driver));
  HONE_ASSIGN_OR_RETURN(KernelInContext* const here, state_->contexts->FindOrAdd(*driver, context));
  for (size_t i = 0; i < variants().size(); ++i) {
    const LaunchPlan* const plan = here->plan(i);
    if (plan == nullptr) return false;
    if (!plan->Accepts(inputs)) continue;
    PlannedLaunch launch;
    if (!plan->Resolve(inputs, launch)) return false;
    const PlanFunctions* functions = here->functions(i);
    if (functions == nullptr) {
      if (!IsLoaded(context, i) && IsCapturing(*driver, stream)) return NotLoadedInCapture();
      HONE_ASSIGN_OR_RETURN(functions, state_->contexts->Load(*driver, *here, i));
    }
    HONE_RETURN_IF_ERROR(LaunchOnStream(*driver, *plan, *functions, launch, stream));
    return true;
  }
  return false;
}

bool Kernel::IsLoaded(uint64_t context, size_t variant) const {
  return CudaModules::Get().Find(context, variants()[variant].artifact.sha256()) != nullptr;
}

absl::Status Kernel::LaunchByName(const LaunchArguments& arguments, CUstream_st* stream) const {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  HONE_ASSIGN_OR_RETURN(const uint64_t context, CudaModules::CurrentContext(*driver));
  HONE_ASSIGN_OR_RETURN(KernelInContext* const here, state_->contexts->FindOrAdd(*driver, context));
  LaunchArguments complete = arguments;
  complete.sizes.insert(here->facts().begin(), here->facts().end());
  HONE_ASSIGN_OR_RETURN(const int index, ChooseByName(complete));
  const auto chosen = static_cast<size_t>(index);
  HONE_ASSIGN_OR_RETURN(const ResolvedLaunch launch,
                        ResolveLaunch(variants()[chosen].recipe, complete));
  if (!IsLoaded(context, chosen) && IsCapturing(*driver, stream)) return NotLoadedInCapture();
  HONE_ASSIGN_OR_RETURN(CudaModule* const module,
                        state_->contexts->LoadModule(*driver, *here, chosen));
  return LaunchOnStream(*driver, *module, launch, stream);
}

absl::Status Kernel::LaunchOnCpu(const PlanInputs& inputs) const {
  return LaunchOnCpu(ArgumentsOf(state_->names, inputs));
}

absl::Status Kernel::LaunchOnCpu(const LaunchArguments& arguments) const {
  InputsByPosition by_position;
  if (recorder_ == nullptr || !by_position.Fill(state_->names, arguments)) {
    return LaunchOnCpuUnseen(arguments);
  }
  return recorder_->Record(
      by_position.inputs(), {.on_cpu = true}, [&] { return ChooseVariant(arguments).ok(); },
      [&] { return LaunchOnCpuUnseen(arguments); });
}

absl::Status Kernel::LaunchOnCpuUnseen(const LaunchArguments& arguments) const {
  if (!state_->cpu_device_enabled) {
    return absl::FailedPreconditionError(
        "the CPU reference device is not enabled in this client: its kernels are code that the "
        "daemon "
        "sent; connect with enable_cpu_device");
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
