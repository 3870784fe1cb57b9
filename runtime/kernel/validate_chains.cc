// Chain parameters: the arguments they name, their presets and default.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/generate/chain_source.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/problem.h"
#include "runtime/kernel/problem_chains.h"
#include "runtime/kernel/template_text.h"
#include "runtime/kernel/validate_template.h"

namespace hone {
namespace {

constexpr size_t kChainArguments = 16;  // of each kind

bool IsChainType(DataType type) { return IsFloatingPoint(type) && type != DataType::kF64; }

absl::Status CheckChainName(const std::string& path, const std::string& name,
                            std::set<std::string>& seen) {
  HONE_RETURN_IF_ERROR(CheckText(path, name, 255));
  if (!IsIdentifier(name)) {
    return FieldError(path, absl::StrCat("\"", name, "\" is not an identifier"));
  }
  if (FindChainFunction(name) != nullptr || name == "operations") {
    return FieldError(path, absl::StrCat("\"", name, "\" has a meaning in chains"));
  }
  if (!seen.insert(name).second) {
    return FieldError(path, absl::StrCat("\"", name, "\" is named twice"));
  }
  return absl::OkStatus();
}

absl::Status CheckInput(const TemplateSpec& spec, const TemplateBody& body, const std::string& path,
                        const std::string& name) {
  const TemplateBuffer* buffer = FindBuffer(body, name);
  if (buffer == nullptr || buffer->access != Access::kRead || buffer->optional) {
    return FieldError(path, absl::StrCat("\"", name, "\" is not a READ buffer argument; chains ",
                                         "decide themselves which of them are there"));
  }
  for (const DataType type : PossibleDtypes(spec, buffer->dtype)) {
    if (IsChainType(type)) continue;
    return FieldError(path, absl::StrCat("\"", name, "\" may be ", Name(type),
                                         "; chains read F32, F16, BF16, F8E4M3, F8E5M2"));
  }
  return absl::OkStatus();
}

absl::Status CheckScalarArgument(const TemplateBody& body, const std::string& path,
                                 const std::string& name) {
  const int index = FindArgument(body, name);
  const TemplateScalar* scalar =
      index < 0 ? nullptr
                : std::get_if<TemplateScalar>(&body.arguments[static_cast<size_t>(index)].kind);
  if (scalar != nullptr && !scalar->value.has_value() && scalar->type == DataType::kF32) {
    return absl::OkStatus();
  }
  return FieldError(path, absl::StrCat("\"", name, "\" is not a per-launch F32 scalar argument"));
}

absl::Status CheckArgumentsOf(const TemplateSpec& spec, const TemplateBody& body,
                              const std::string& path, const ChainNames& names) {
  for (size_t i = 0; i < names.inputs.size(); ++i) {
    HONE_RETURN_IF_ERROR(
        CheckInput(spec, body, FieldPath(path + ".", "inputs", i), names.inputs[i]));
  }
  for (size_t i = 0; i < names.scalars.size(); ++i) {
    HONE_RETURN_IF_ERROR(
        CheckScalarArgument(body, FieldPath(path + ".", "scalars", i), names.scalars[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckPreset(const TemplateSpec& spec, const Parameter& chain, const std::string& path,
                         const ChainPreset& preset) {
  const absl::StatusOr<Chain> parsed = Chain::Parse(preset.expression, chain.chain_names);
  if (!parsed.ok()) return AtField(path + ".expression", parsed.status());
  for (const auto& [name, value] : preset.params) {
    const std::string here = path + ".params";
    const auto found = std::find_if(spec.params.begin(), spec.params.end(),
                                    [&](const Parameter& one) { return one.name == name; });
    if (found == spec.params.end() || found->kind == ParameterKind::kChain) {
      return FieldError(here, absl::StrCat("\"", name, "\" is not another parameter"));
    }
    const absl::StatusOr<Value> read = ReadValue(*found, value);
    if (!read.ok()) return AtField(here, read.status());
  }
  return absl::OkStatus();
}

absl::Status ValidateChain(const TemplateSpec& spec, const Parameter& parameter,
                           const std::string& path) {
  const ChainNames& names = parameter.chain_names;
  if (names.inputs.empty()) return FieldError(path + ".inputs", "is empty");
  HONE_RETURN_IF_ERROR(CheckCount(path + ".inputs", names.inputs.size(), kChainArguments));
  HONE_RETURN_IF_ERROR(CheckCount(path + ".scalars", names.scalars.size(), kChainArguments));
  std::set<std::string> seen;
  for (size_t i = 0; i < names.inputs.size(); ++i) {
    HONE_RETURN_IF_ERROR(CheckChainName(FieldPath(path + ".", "inputs", i), names.inputs[i], seen));
  }
  for (size_t i = 0; i < names.scalars.size(); ++i) {
    HONE_RETURN_IF_ERROR(
        CheckChainName(FieldPath(path + ".", "scalars", i), names.scalars[i], seen));
  }
  HONE_RETURN_IF_ERROR(CheckArgumentsOf(spec, spec.base, path, names));
  for (const ArchitectureBody& variant : spec.variants) {
    HONE_RETURN_IF_ERROR(CheckArgumentsOf(spec, variant.body, path, names));
  }
  HONE_RETURN_IF_ERROR(
      CheckCount(path + ".presets", parameter.presets.size(), TemplateLimits::kValues));
  for (size_t i = 0; i < parameter.presets.size(); ++i) {
    const std::string here = FieldPath(path + ".", "presets", i);
    HONE_RETURN_IF_ERROR(CheckChainName(here + ".name", parameter.presets[i].name, seen));
    HONE_RETURN_IF_ERROR(CheckPreset(spec, parameter, here, parameter.presets[i]));
  }
  if (parameter.default_value.has_value()) {
    const absl::StatusOr<Chain> chain = ReadChain(parameter, *parameter.default_value);
    if (!chain.ok()) return AtField(path + ".default", chain.status());
  }
  const std::string header = ChainHeaderName(parameter.name);
  if (std::find(spec.headers.begin(), spec.headers.end(), header) == spec.headers.end()) {
    return absl::OkStatus();
  }
  return FieldError("headers", absl::StrCat("\"", header, "\" is the name of the header generated ",
                                            "for ", parameter.name));
}

}  // namespace

absl::Status ValidateChains(const TemplateSpec& spec) {
  for (size_t i = 0; i < spec.params.size(); ++i) {
    if (spec.params[i].kind != ParameterKind::kChain) continue;
    HONE_RETURN_IF_ERROR(ValidateChain(spec, spec.params[i], FieldPath("", "params", i, ".chain")));
  }
  return absl::OkStatus();
}

absl::Status ValidateChainCheck(const TemplateSpec& spec, const std::string& path,
                                const TemplateCheck& check, const TemplateBuffer& output) {
  const bool known =
      std::any_of(spec.params.begin(), spec.params.end(), [&](const Parameter& parameter) {
        return parameter.kind == ParameterKind::kChain && parameter.name == check.chain;
      });
  if (!known) {
    return FieldError(path + ".chain",
                      absl::StrCat("\"", check.chain, "\" is not a chain parameter"));
  }
  if (!check.reference.empty()) {
    return FieldError(path + ".reference", "given together with chain");
  }
  const Tolerance& tolerance = check.tolerance;
  if (tolerance.exact || tolerance.atol != 0 || tolerance.rtol != 0 ||
      tolerance.mismatch_share_max != 0 || tolerance.nan != NanPolicy::kNanMatchesNan ||
      !check.by_dtype.empty()) {
    return FieldError(path, "gives a tolerance together with chain, which has its own");
  }
  if (output.access != Access::kWrite) {
    return FieldError(path + ".output",
                      absl::StrCat("\"", check.output, "\" is not a WRITE buffer"));
  }
  for (const DataType type : PossibleDtypes(spec, output.dtype)) {
    if (IsChainType(type)) continue;
    return FieldError(path + ".output", absl::StrCat(check.output, " may be ", Name(type),
                                                     ", and chains are computed in F32"));
  }
  return absl::OkStatus();
}

}  // namespace hone
