#include "runtime/cache/check_tune.h"

#include <cstdint>
#include <set>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"
#include "runtime/base/status_macros.h"
#include "runtime/compile/compile_options.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/instantiate.h"
#include "runtime/launch/resolve_launch.h"
#include "runtime/tune/candidate_builder.h"

namespace hone {
namespace {

absl::Status CheckConfigs(const ConfigSpace& space, const std::vector<Config>& configs) {
  std::set<Config> seen;
  for (size_t i = 0; i < configs.size(); ++i) {
    const std::string field = absl::StrCat("configs[", i, "]");
    const absl::Status valid = space.Validate(configs[i]);
    if (!valid.ok()) {
      return FieldError(field, absl::StrCat("'", configs[i].ToString(), "': ", valid.message()));
    }
    if (!seen.insert(configs[i]).second) {
      return FieldError(field, absl::StrCat("'", configs[i].ToString(), "' is given twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const ResolvedRequest& request, const Config& config) {
  HONE_ASSIGN_OR_RETURN(
      const Program program,
      InstantiateProgram(*request.kernel_template, request.problem, config, request.architecture));
  if (!program.prebuilt_bytes.empty()) return absl::OkStatus();
  return AtField("options", NormalizeOptions(program.options).status());
}

// Without a default there are no bits to compare with.
absl::Status CheckNumerics(const ConfigSpace& space, Numerics numerics) {
  if (numerics == Numerics::kWithinTolerance) return absl::OkStatus();
  const absl::Status valid = space.Default().status();
  if (valid.ok()) return valid;
  return WithErrorInfo(
      absl::FailedPreconditionError(absl::StrCat(
          "numerics: no candidate can be SAME_BITS_AS_DEFAULT, because the default is not valid "
          "for these params: ",
          valid.message())),
      {.reason = "NO_CANDIDATE_SURVIVED"});
}

// Bytes of one argument; the tuner takes at least one set of all of them.
absl::StatusOr<int64_t> BytesOf(const RecipeArgument& argument, const SizeBindings& sizes) {
  if (const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind)) {
    return BufferSpanBytes(*buffer, sizes);
  }
  if (const auto* scratch = std::get_if<RecipeScratch>(&argument.kind)) {
    return ScratchBytes(*scratch, sizes);
  }
  return 0;
}

absl::Status TooLarge(const ResolvedRequest& request, absl::string_view what) {
  return FieldError("params", absl::StrCat(request.problem.ToString(), ": ", what));
}

absl::Status CheckSizes(const ResolvedRequest& request, const Config& config) {
  const CandidateBuilder builder(nullptr, request.kernel_template, request.problem,
                                 request.architecture, request.facts, {});
  HONE_ASSIGN_OR_RETURN(const LaunchRecipe recipe, builder.Outline(config));
  SizeBindings sizes = request.problem.dynamic_sizes();
  sizes.insert(request.facts.begin(), request.facts.end());
  int64_t total = 0;
  for (const RecipeArgument& argument : recipe.arguments) {
    const auto bytes = BytesOf(argument, sizes);
    if (!bytes.ok()) {
      return TooLarge(request,
                      absl::StrCat("argument ", argument.name, ": ", bytes.status().message()));
    }
    if (__builtin_add_overflow(total, *bytes, &total)) {
      return TooLarge(request, "the arguments take more than 2^63-1 bytes together");
    }
  }
  const int64_t memory_bytes = request.device->memory_bytes;
  if (memory_bytes > 0 && total > memory_bytes) {
    return WithErrorInfo(
        absl::ResourceExhaustedError(absl::StrCat("params: ", request.problem.ToString(),
                                                  ": the arguments of one launch take ", total,
                                                  " bytes; the device has ", memory_bytes)),
        {.reason = "DEVICE_MEMORY", .needed = total, .available = memory_bytes});
  }
  for (const auto& [name, work] :
       {std::pair("work.bytes", &recipe.work_bytes), std::pair("work.flops", &recipe.work_flops)}) {
    const auto amount = work->Evaluate(sizes);
    if (!amount.ok()) {
      return TooLarge(request, absl::StrCat(name, ": ", amount.status().message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status NoBitsOfDefault(const std::string& default_config, const Measurement* measured) {
  std::string why = "it was not measured";
  if (measured != nullptr) {
    why = measured->irreproducible ? "two launches of it on the same inputs gave different bits"
                                   : "no hash of its outputs is stored; force measures it again";
    if (measured->rejection) {
      why = absl::StrCat(Name(measured->rejection->kind), ": ", measured->rejection->detail);
    }
  }
  return WithErrorInfo(
      absl::FailedPreconditionError(absl::StrCat(
          "numerics: no candidate can be SAME_BITS_AS_DEFAULT, because the bits of the default (",
          default_config, ") are not known: ", why,
          ". What was measured is kept; WITHIN_TOLERANCE has a winner")),
      {.reason = "NO_CANDIDATE_SURVIVED"});
}

absl::Status CheckTune(const ResolvedRequest& request, const KernelAssembler& assembler,
                       const TuneOptions& options) {
  HONE_ASSIGN_OR_RETURN(const ConfigSpace space, assembler.Space(request));
  HONE_RETURN_IF_ERROR(CheckConfigs(space, options.only));
  HONE_RETURN_IF_ERROR(CheckNumerics(space, options.numerics));
  Config config;
  if (options.only.empty()) {
    HONE_ASSIGN_OR_RETURN(config, assembler.Untuned(request));
  } else {
    config = options.only.front();
  }
  HONE_RETURN_IF_ERROR(CheckOptions(request, config));
  return CheckSizes(request, config);
}

}  // namespace hone
