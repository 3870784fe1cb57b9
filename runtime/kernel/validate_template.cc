#include "runtime/kernel/validate_template.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/architecture.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/template_text.h"

namespace hone {
namespace {

absl::Status CheckTemplateName(const std::string& name) {
  bool ok = !name.empty() && name.size() <= 64 && absl::ascii_islower(name[0]);
  for (const char c : name) {
    ok = ok && (absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_');
  }
  if (ok) return absl::OkStatus();
  HONE_RETURN_IF_ERROR(CheckText("name", name, 255));
  return FieldError("name", absl::StrCat("\"", name, "\" is not a name like copy_1d: a lower-case ",
                                         "letter, then lower-case letters, digits and _, at most ",
                                         "64 together"));
}

absl::Status CheckOptions(const TemplateBody& body, absl::string_view prefix) {
  HONE_RETURN_IF_ERROR(
      CheckCount(absl::StrCat(prefix, "options"), body.options.size(), TemplateLimits::kOptions));
  for (size_t i = 0; i < body.options.size(); ++i) {
    const std::string path = FieldPath(prefix, "options", i);
    HONE_RETURN_IF_ERROR(CheckText(path, body.options[i], TemplateLimits::kLineBytes));
    if (body.options[i].empty()) return FieldError(path, "is empty");
  }
  return absl::OkStatus();
}

absl::Status CheckDefines(const TemplateSpec& spec, const TemplateBody& body) {
  HONE_RETURN_IF_ERROR(CheckCount("defines", spec.defines.size(), TemplateLimits::kOptions));
  const NameScope scope = NameScope::ForConfig(spec, body);
  std::set<std::string> seen;
  for (size_t i = 0; i < spec.defines.size(); ++i) {
    const auto& [name, value] = spec.defines[i];
    const std::string path = FieldPath("", "defines", i);
    if (!IsIdentifier(name)) {
      return FieldError(path + ".name", absl::StrCat("\"", name, "\" is not an identifier"));
    }
    if (!seen.insert(name).second) {
      return FieldError(path + ".name", absl::StrCat("\"", name, "\" is defined twice"));
    }
    HONE_RETURN_IF_ERROR(CheckText(path + ".value", value, TemplateLimits::kLineBytes));
    HONE_RETURN_IF_ERROR(scope.CheckPlaceholders(path + ".value", value));
  }
  return absl::OkStatus();
}

absl::Status CheckWork(const TemplateSpec& spec) {
  const NameScope scope = NameScope::ForProblem(spec, spec.base);
  HONE_RETURN_IF_ERROR(scope.CheckInteger("work.bytes", spec.work_bytes));
  HONE_RETURN_IF_ERROR(scope.CheckInteger("work.flops", spec.work_flops));
  if (spec.work_traffic_bytes) {
    const NameScope with_tunables = NameScope::ForConfig(spec, spec.base);
    HONE_RETURN_IF_ERROR(
        with_tunables.CheckInteger("work.traffic_bytes", *spec.work_traffic_bytes));
  }
  const bool is_parameter =
      std::any_of(spec.params.begin(), spec.params.end(), [&](const Parameter& parameter) {
        return parameter.kind == ParameterKind::kDtype && parameter.name == spec.matrix_dtype;
      });
  if (!spec.matrix_dtype.empty() && !is_parameter &&
      !ParseDataType(spec.matrix_dtype).has_value()) {
    return FieldError(
        "work.matrix_dtype",
        absl::StrCat("\"", spec.matrix_dtype, "\" is neither a data type nor a dtype parameter"));
  }
  return absl::OkStatus();
}

absl::Status CheckRequirements(const Requirements& requirements) {
  if (requirements.min_architecture.empty()) return absl::OkStatus();
  constexpr absl::string_view kPath = "requirements.min_architecture";
  const absl::StatusOr<Architecture> parsed = ParseArchitecture(requirements.min_architecture);
  if (!parsed.ok()) return AtField(kPath, parsed.status());
  if (parsed->cpu || parsed->ptx || parsed->suffix != 0) {
    return FieldError(kPath, absl::StrCat("\"", requirements.min_architecture,
                                          "\" is not of the form sm_NN; name what only some "
                                          "architectures have in requirements.features"));
  }
  return absl::OkStatus();
}

absl::Status ValidateBody(const TemplateSpec& spec, TemplateBody& body, absl::string_view prefix) {
  HONE_RETURN_IF_ERROR(CheckOptions(body, prefix));
  HONE_RETURN_IF_ERROR(ValidateTunables(spec, body, prefix));
  HONE_RETURN_IF_ERROR(CheckDefines(spec, body));
  HONE_RETURN_IF_ERROR(ValidateArguments(spec, body, prefix));
  HONE_RETURN_IF_ERROR(ValidateSteps(spec, body, prefix));
  return ValidateChecks(spec, body, prefix);
}

}  // namespace

std::string FieldPath(absl::string_view prefix, absl::string_view field, size_t index,
                      absl::string_view rest) {
  return absl::StrCat(prefix, field, "[", index, "]", rest);
}

absl::Status CheckCount(absl::string_view path, size_t count, size_t count_max) {
  if (count <= count_max) return absl::OkStatus();
  return FieldError(path, absl::StrCat(count, " entries; at most ", count_max));
}

absl::Status CheckArchitectures(absl::string_view path,
                                const std::vector<std::string>& architectures) {
  HONE_RETURN_IF_ERROR(CheckCount(path, architectures.size(), TemplateLimits::kVariants));
  for (size_t i = 0; i < architectures.size(); ++i) {
    const std::string here = FieldPath("", path, i);
    const absl::StatusOr<Architecture> parsed = ParseArchitecture(architectures[i]);
    if (!parsed.ok()) return AtField(here, parsed.status());
    if (parsed->ptx) return FieldError(here, "expected sm_NN: compute_NN is matched as sm_NN");
  }
  return absl::OkStatus();
}

int FindArgument(const TemplateBody& body, absl::string_view name) {
  for (size_t i = 0; i < body.arguments.size(); ++i) {
    if (body.arguments[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

const TemplateBuffer* FindBuffer(const TemplateBody& body, absl::string_view name) {
  const int index = FindArgument(body, name);
  return index < 0 ? nullptr : std::get_if<TemplateBuffer>(&body.arguments[index].kind);
}

const TemplateBody& BodyFor(const TemplateSpec& spec, const std::string& architecture) {
  for (const ArchitectureBody& variant : spec.variants) {
    for (const std::string& pattern : variant.architectures) {
      if (ArchitectureMatches(pattern, architecture)) return variant.body;
    }
  }
  return spec.base;
}

absl::Status ValidateTemplate(TemplateSpec& spec) {
  HONE_RETURN_IF_ERROR(CheckTemplateName(spec.name));
  HONE_RETURN_IF_ERROR(CheckText("version", spec.version, TemplateLimits::kNameBytes));
  HONE_RETURN_IF_ERROR(
      CheckText("description", spec.description, TemplateLimits::kTextBytes, /*lines=*/true));
  HONE_RETURN_IF_ERROR(CheckRequirements(spec.requirements));
  HONE_RETURN_IF_ERROR(ValidateParameters(spec));
  HONE_RETURN_IF_ERROR(ValidateBody(spec, spec.base, ""));
  HONE_RETURN_IF_ERROR(CheckCount("variants", spec.variants.size(), TemplateLimits::kVariants));
  for (size_t i = 0; i < spec.variants.size(); ++i) {
    const std::string path = FieldPath("", "variants", i);
    if (spec.variants[i].architectures.empty()) {
      return FieldError(path + ".architectures", "is empty: name what the variant is for");
    }
    HONE_RETURN_IF_ERROR(
        CheckArchitectures(path + ".architectures", spec.variants[i].architectures));
    HONE_RETURN_IF_ERROR(ValidateBody(spec, spec.variants[i].body, path + "."));
  }
  HONE_RETURN_IF_ERROR(ValidateChains(spec));
  HONE_RETURN_IF_ERROR(CheckWork(spec));
  HONE_RETURN_IF_ERROR(ValidatePriors(spec));
  HONE_RETURN_IF_ERROR(ValidatePrebuilt(spec));
  return ValidateFiles(spec);
}

}  // namespace hone
