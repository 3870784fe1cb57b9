#include "client/cli/kernel_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/errors.h"
#include "client/cli/generated_inputs.h"
#include "client/cli/reference_kernel.h"
#include "runtime/base/available_memory.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

// A multiple of the allocation's alignment, so that it does not shift the buffer.
constexpr int64_t kGuardBytes = 4096;
constexpr char kGuardByte = '\x5A';
constexpr uint64_t kSeed = 20240229;

// Contents are made in this process's memory; on the CPU device they stay there besides.
absl::Status FitsHostMemory(int64_t bytes) {
  const int64_t available = AvailableMemoryBytes();
  if (bytes < available / 2) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("generating ", bytes, " bytes takes more than half of the ", available,
                   " bytes of memory that are free here; choose smaller sizes"));
}

absl::StatusOr<std::string> Contents(const RecipeBuffer& recipe, const v1::Buffer& declared,
                                     const ExpressionBindings& bindings, const std::string& name,
                                     int64_t span_bytes, unsigned char poison) {
  if (recipe.access == Access::kWrite) {
    return std::string(static_cast<size_t>(span_bytes), static_cast<char>(poison));
  }
  InputSpec spec;
  spec.dtype = recipe.dtype;
  spec.init = declared.init();
  spec.skew = declared.init_skew();
  // Each buffer has its own data: equal inputs would hide a mix-up.
  spec.seed = kSeed + std::hash<std::string>()(name);
  HONE_ASSIGN_OR_RETURN(spec.low, EvaluateBound(declared.init_low(), bindings));
  HONE_ASSIGN_OR_RETURN(spec.high, EvaluateBound(declared.init_high(), bindings));
  return GenerateInput(spec, span_bytes / SizeBytes(recipe.dtype));
}

absl::StatusOr<std::string> GivenContents(const std::string& file, int64_t span_bytes) {
  absl::StatusOr<std::string> contents = ReadFile(file, span_bytes);
  if (!contents.ok()) return InFile(contents.status());
  if (static_cast<int64_t>(contents->size()) == span_bytes) return contents;
  return InFile(absl::DataLossError(absl::StrCat(
      file, " has ", contents->size(), " bytes; the buffer has ", span_bytes, " at these sizes")));
}

}  // namespace

const v1::Argument* FindArgument(const v1::KernelTemplate& kernel_template,
                                 const std::string& architecture, const std::string& name) {
  for (const v1::ArchitectureVariant& variant : kernel_template.variants()) {
    const bool named = std::any_of(
        variant.architectures().begin(), variant.architectures().end(),
        [&](const std::string& pattern) { return CoversArchitecture(pattern, architecture); });
    if (!named) continue;
    for (const v1::Argument& argument : variant.arguments()) {
      if (argument.name() == name) return &argument;
    }
  }
  for (const v1::Argument& argument : kernel_template.arguments()) {
    if (argument.name() == name) return &argument;
  }
  return nullptr;
}

absl::StatusOr<int64_t> EvaluateBound(const std::string& text, const ExpressionBindings& bindings) {
  if (text.empty()) return 0;
  HONE_ASSIGN_OR_RETURN(const Expression e, Expression::Parse(text));
  return e.Evaluate(bindings);
}

absl::StatusOr<KernelRun> KernelRun::Create(RunDevice& device, const Kernel& kernel,
                                            const v1::KernelTemplate& kernel_template,
                                            const SizeBindings& sizes, int64_t offset_elements,
                                            const GivenInputs& given, unsigned char poison) {
  KernelRun run(device);
  run.arguments_.sizes = sizes;
  ExpressionBindings bindings = BindingsOf(kernel.response().kernel().params());
  for (const auto& [name, size] : sizes) bindings[name] = size;
  const LaunchRecipe& recipe = kernel.variants().front().recipe;
  const std::string& architecture = kernel.response().kernel().architecture();
  for (const RecipeArgument& argument : recipe.arguments) {
    const v1::Argument* declared = FindArgument(kernel_template, architecture, argument.name);
    if (declared == nullptr) {
      return absl::InternalError(
          absl::StrCat("the template does not declare argument '", argument.name, "'"));
    }
    if (const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind)) {
      const auto file = given.contents.find(argument.name);
      absl::Status added =
          run.AddBuffer(argument.name, *buffer, declared->buffer(), bindings, offset_elements,
                        file == given.contents.end() ? std::string() : file->second, poison);
      if (!added.ok()) return InContext(added, absl::StrCat("buffer '", argument.name, "'"));
    } else if (const auto* scratch = std::get_if<RecipeScratch>(&argument.kind)) {
      HONE_RETURN_IF_ERROR(run.AddScratch(argument.name, *scratch));
    } else if (const auto* scalar = std::get_if<RecipeScalar>(&argument.kind)) {
      if (scalar->value) continue;
      const auto value = given.scalars.find(argument.name);
      run.arguments_.scalars[argument.name] =
          value != given.scalars.end() ? value->second : declared->scalar().per_launch().sample();
    }
  }
  return run;
}

absl::Status KernelRun::AddBuffer(const std::string& name, const RecipeBuffer& recipe,
                                  const v1::Buffer& declared, const ExpressionBindings& bindings,
                                  int64_t offset_elements, const std::string& contents_file,
                                  unsigned char poison) {
  Buffer buffer;
  buffer.dtype = recipe.dtype;
  HONE_ASSIGN_OR_RETURN(buffer.extent, EvaluateExtent(recipe, arguments_.sizes));
  HONE_ASSIGN_OR_RETURN(buffer.span_bytes, SpanBytes(buffer.extent, recipe.dtype));
  HONE_RETURN_IF_ERROR(FitsHostMemory(buffer.span_bytes));
  HONE_ASSIGN_OR_RETURN(const std::string contents,
                        contents_file.empty()
                            ? Contents(recipe, declared, bindings, name, buffer.span_bytes, poison)
                            : GivenContents(contents_file, buffer.span_bytes));
  const int64_t offset = offset_elements * SizeBytes(recipe.dtype);
  HONE_ASSIGN_OR_RETURN(const uint64_t base,
                        device_->Allocate(buffer.span_bytes + offset + 2 * kGuardBytes));
  buffer.address = base + static_cast<uint64_t>(kGuardBytes + offset);
  const std::string guard(static_cast<size_t>(kGuardBytes), kGuardByte);
  HONE_RETURN_IF_ERROR(device_->CopyIn(buffer.address - kGuardBytes, guard));
  HONE_RETURN_IF_ERROR(device_->CopyIn(buffer.address, contents));
  HONE_RETURN_IF_ERROR(
      device_->CopyIn(buffer.address + static_cast<uint64_t>(buffer.span_bytes), guard));
  arguments_.buffers[name] = {
      .address = buffer.address, .shape = buffer.extent.shape, .strides = buffer.extent.strides};
  buffers_[name] = std::move(buffer);
  return absl::OkStatus();
}

absl::Status KernelRun::AddScratch(const std::string& name, const RecipeScratch& recipe) {
  HONE_ASSIGN_OR_RETURN(const int64_t bytes, ScratchBytes(recipe, arguments_.sizes));
  HONE_ASSIGN_OR_RETURN(const uint64_t address, device_->Allocate(bytes));
  HONE_RETURN_IF_ERROR(device_->CopyIn(address, std::string(static_cast<size_t>(bytes), '\0')));
  arguments_.scratch[name] = address;
  return absl::OkStatus();
}

absl::StatusOr<double> KernelRun::Launch(const Kernel& kernel) {
  HONE_ASSIGN_OR_RETURN(const double ns, device_->Launch(kernel, arguments_));
  HONE_RETURN_IF_ERROR(CheckGuardZones());
  return ns;
}

absl::Status KernelRun::CheckGuardZones() {
  const std::string intact(static_cast<size_t>(kGuardBytes), kGuardByte);
  std::string guard;
  for (const auto& [name, buffer] : buffers_) {
    HONE_RETURN_IF_ERROR(device_->CopyOut(guard, buffer.address - kGuardBytes, kGuardBytes));
    if (guard != intact) {
      return absl::DataLossError(absl::StrCat("the kernel wrote before buffer '", name, "'"));
    }
    const uint64_t end = buffer.address + static_cast<uint64_t>(buffer.span_bytes);
    HONE_RETURN_IF_ERROR(device_->CopyOut(guard, end, kGuardBytes));
    if (guard != intact) {
      return absl::DataLossError(absl::StrCat("the kernel wrote behind buffer '", name, "'"));
    }
  }
  return absl::OkStatus();
}

const KernelRun::Buffer* KernelRun::Find(const std::string& name) const {
  const auto found = buffers_.find(name);
  return found == buffers_.end() ? nullptr : &found->second;
}

absl::StatusOr<std::string> KernelRun::Read(const Buffer& buffer) {
  std::string bytes;
  HONE_RETURN_IF_ERROR(device_->CopyOut(bytes, buffer.address, buffer.span_bytes));
  return bytes;
}

}  // namespace hone::cli
