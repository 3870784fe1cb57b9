// Parameters and tunables: names, domains, defaults.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/template_text.h"
#include "runtime/kernel/validate_template.h"

namespace hone {
namespace {

constexpr int64_t kSizeMax = int64_t{1} << 62;
constexpr int64_t kMultipleMax = int64_t{1} << 31;

// Names that the expression language gives a meaning.
bool IsReserved(absl::string_view name) {
  static const auto* const words = new std::set<absl::string_view>{
      "ceil_div", "min", "max", "align_up", "log2", "sizeof", "bits", "device", "true", "false"};
  return words->count(name) > 0 || ParseDataType(name).has_value();
}

absl::Status CheckName(absl::string_view path, const std::string& name,
                       std::set<std::string>& seen) {
  HONE_RETURN_IF_ERROR(CheckText(path, name, 255));
  if (!IsIdentifier(name)) {
    return FieldError(path, absl::StrCat("\"", name, "\" is not an identifier of at most 64 ",
                                         "letters, digits and _"));
  }
  if (IsReserved(name)) {
    return FieldError(path, absl::StrCat("\"", name, "\" has a meaning in expressions"));
  }
  if (!seen.insert(name).second) {
    return FieldError(path, absl::StrCat("\"", name, "\" is declared twice"));
  }
  return absl::OkStatus();
}

// "relu", "ns::relu".
bool IsQualifiedName(absl::string_view text) {
  for (absl::string_view part : absl::StrSplit(text, "::")) {
    if (!IsIdentifier(part)) return false;
  }
  return true;
}

absl::Status CheckDtypes(const std::string& path, const Parameter& parameter) {
  if (parameter.dtypes.empty()) return FieldError(path + ".dtype.values", "is empty");
  const std::set<DataType> distinct(parameter.dtypes.begin(), parameter.dtypes.end());
  if (distinct.size() != parameter.dtypes.size()) {
    return FieldError(path + ".dtype.values", "names a data type twice");
  }
  if (!parameter.default_value.has_value()) return absl::OkStatus();
  const auto* type = std::get_if<DataType>(&*parameter.default_value);
  if (type == nullptr || distinct.count(*type) == 0) {
    return FieldError(path + ".dtype.default",
                      absl::StrCat(ToString(*parameter.default_value), " is not among the values"));
  }
  return absl::OkStatus();
}

// `default_from` names an earlier dtype parameter whose values are all among this one's.
absl::Status CheckDefaultFrom(const std::string& path, const TemplateSpec& spec, size_t index) {
  const Parameter& parameter = spec.params[index];
  if (parameter.default_from.empty()) return absl::OkStatus();
  const std::string here = path + ".dtype.default_from";
  if (parameter.default_value.has_value()) return FieldError(here, "given together with default");
  for (size_t i = 0; i < index; ++i) {
    const Parameter& earlier = spec.params[i];
    if (earlier.name != parameter.default_from || earlier.kind != ParameterKind::kDtype) continue;
    for (const DataType type : earlier.dtypes) {
      if (std::count(parameter.dtypes.begin(), parameter.dtypes.end(), type) > 0) continue;
      return FieldError(here, absl::StrCat(earlier.name, " may be ", Name(type), ", and ",
                                           parameter.name, " may not"));
    }
    return absl::OkStatus();
  }
  return FieldError(here, absl::StrCat("\"", parameter.default_from,
                                       "\" is not a dtype parameter before this one"));
}

absl::Status CheckChoices(const std::string& path, const Parameter& parameter) {
  if (parameter.choices.empty()) return FieldError(path + ".choice.values", "is empty");
  HONE_RETURN_IF_ERROR(
      CheckCount(path + ".choice.values", parameter.choices.size(), TemplateLimits::kValues));
  std::set<std::string> seen;
  for (size_t i = 0; i < parameter.choices.size(); ++i) {
    const std::string here = FieldPath(path + ".choice.", "values", i);
    const std::string& choice = parameter.choices[i];
    HONE_RETURN_IF_ERROR(CheckText(here, choice, TemplateLimits::kLineBytes));
    if (!IsQualifiedName(choice)) {
      return FieldError(here,
                        absl::StrCat("\"", choice, "\" is not a C++ identifier or qualified name"));
    }
    if (IsReserved(choice)) {
      return FieldError(here, absl::StrCat("\"", choice, "\" has a meaning in expressions"));
    }
    if (!seen.insert(choice).second) {
      return FieldError(here, absl::StrCat("\"", choice, "\" is listed twice"));
    }
  }
  if (!parameter.default_value.has_value()) return absl::OkStatus();
  const std::string text = ToString(*parameter.default_value);
  if (seen.count(text) == 0) {
    return FieldError(path + ".choice.default",
                      absl::StrCat("\"", text, "\" is not among the values"));
  }
  return absl::OkStatus();
}

bool InDomain(const Parameter& parameter, int64_t size) {
  return size >= parameter.min && size <= parameter.max && size % parameter.multiple_of == 0;
}

absl::Status CheckBuckets(const std::string& path, const Parameter& parameter) {
  const std::vector<int64_t>& buckets = parameter.bucket_values;
  const std::string field = path + ".size.bucket_values";
  if (parameter.bucket != BucketRule::kList) {
    if (buckets.empty()) return absl::OkStatus();
    return FieldError(field, "given without bucket: LIST");
  }
  if (buckets.empty()) return FieldError(field, "bucket: LIST needs at least one value");
  HONE_RETURN_IF_ERROR(CheckCount(field, buckets.size(), TemplateLimits::kValues));
  for (size_t i = 0; i < buckets.size(); ++i) {
    const std::string here = FieldPath(path + ".size.", "bucket_values", i);
    if (!InDomain(parameter, buckets[i])) {
      return FieldError(here, absl::StrCat(buckets[i], " is outside the declared domain"));
    }
    if (i > 0 && buckets[i] <= buckets[i - 1]) {
      return FieldError(here, absl::StrCat(buckets[i], " is not above the value before it"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const std::string& path, const Parameter& parameter) {
  if (parameter.multiple_of < 1 || parameter.multiple_of > kMultipleMax) {
    return FieldError(path + ".size.multiple_of",
                      absl::StrCat(parameter.multiple_of, "; expected 1 to ", kMultipleMax));
  }
  if (parameter.min < 0) {
    return FieldError(path + ".size.min", absl::StrCat(parameter.min, "; expected at least 0"));
  }
  if (parameter.max > kSizeMax || parameter.max < parameter.min) {
    return FieldError(path + ".size.max",
                      absl::StrCat(parameter.max, "; expected ", parameter.min, " (min) to 2^62"));
  }
  const int64_t multiple = parameter.multiple_of;
  if ((parameter.min + multiple - 1) / multiple * multiple > parameter.max) {
    return FieldError(path + ".size.multiple_of",
                      absl::StrCat("no multiple of ", multiple, " lies between ", parameter.min,
                                   " and ", parameter.max));
  }
  HONE_RETURN_IF_ERROR(CheckBuckets(path, parameter));
  if (!parameter.default_value.has_value()) return absl::OkStatus();
  const auto* size = std::get_if<int64_t>(&*parameter.default_value);
  if (size == nullptr || !InDomain(parameter, *size)) {
    return FieldError(path + ".size.default", absl::StrCat(ToString(*parameter.default_value),
                                                           " is outside the declared domain"));
  }
  return absl::OkStatus();
}

absl::Status CheckFlag(const std::string& path, const Parameter& parameter) {
  if (!parameter.default_value.has_value()) return absl::OkStatus();
  const auto* flag = std::get_if<int64_t>(&*parameter.default_value);
  if (flag != nullptr && (*flag == 0 || *flag == 1)) return absl::OkStatus();
  return FieldError(path + ".flag.default", "expected true or false");
}

absl::Status CheckParameter(const std::string& path, const Parameter& parameter) {
  HONE_RETURN_IF_ERROR(
      CheckText(path + ".description", parameter.description, TemplateLimits::kTextBytes, true));
  switch (parameter.kind) {
    case ParameterKind::kDtype:
      return CheckDtypes(path, parameter);
    case ParameterKind::kChoice:
      return CheckChoices(path, parameter);
    case ParameterKind::kSize:
      return CheckSize(path, parameter);
    case ParameterKind::kFlag:
      return CheckFlag(path, parameter);
    case ParameterKind::kChain:
      return absl::OkStatus();  // ValidateChains, when arguments are known
  }
  return absl::InternalError("parameter of an unknown kind");
}

absl::Status CheckValues(const std::string& path, const std::vector<int64_t>& values,
                         int64_t default_value) {
  if (values.empty()) return FieldError(path + ".values", "is empty");
  HONE_RETURN_IF_ERROR(CheckCount(path + ".values", values.size(), TemplateLimits::kValues));
  std::set<int64_t> seen;
  for (size_t i = 0; i < values.size(); ++i) {
    if (seen.insert(values[i]).second) continue;
    return FieldError(FieldPath(path + ".", "values", i),
                      absl::StrCat(values[i], " is listed twice"));
  }
  if (seen.count(default_value) == 0) {
    return FieldError(path + ".default",
                      absl::StrCat(default_value, " is not among the tunable's values"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateParameters(const TemplateSpec& spec) {
  HONE_RETURN_IF_ERROR(CheckCount("params", spec.params.size(), TemplateLimits::kParams));
  std::set<std::string> seen;
  for (size_t i = 0; i < spec.params.size(); ++i) {
    const std::string path = FieldPath("", "params", i);
    HONE_RETURN_IF_ERROR(CheckName(path + ".name", spec.params[i].name, seen));
    HONE_RETURN_IF_ERROR(CheckParameter(path, spec.params[i]));
    HONE_RETURN_IF_ERROR(CheckDefaultFrom(path, spec, i));
  }
  // A choice's text is a name in expressions too.
  for (size_t i = 0; i < spec.params.size(); ++i) {
    for (const std::string& choice : spec.params[i].choices) {
      if (seen.count(choice) == 0) continue;
      return FieldError(FieldPath("", "params", i, ".choice.values"),
                        absl::StrCat("\"", choice, "\" is a parameter's name too"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateTunables(const TemplateSpec& spec, const TemplateBody& body,
                              absl::string_view prefix) {
  HONE_RETURN_IF_ERROR(CheckCount(absl::StrCat(prefix, "tunables"), body.tunables.size(),
                                  TemplateLimits::kTunables));
  std::set<std::string> seen;
  for (const Parameter& parameter : spec.params) {
    seen.insert(parameter.name);
    seen.insert(parameter.choices.begin(), parameter.choices.end());
  }
  for (size_t i = 0; i < body.tunables.size(); ++i) {
    const Tunable& tunable = body.tunables[i];
    const std::string path = FieldPath(prefix, "tunables", i);
    HONE_RETURN_IF_ERROR(CheckName(path + ".name", tunable.name, seen));
    HONE_RETURN_IF_ERROR(
        CheckText(path + ".description", tunable.description, TemplateLimits::kTextBytes, true));
    HONE_RETURN_IF_ERROR(CheckValues(path, tunable.values, tunable.default_value));
    HONE_RETURN_IF_ERROR(CheckCount(path + ".per_architecture", tunable.per_architecture.size(),
                                    TemplateLimits::kVariants));
    for (size_t j = 0; j < tunable.per_architecture.size(); ++j) {
      const ArchitectureValues& special = tunable.per_architecture[j];
      const std::string here = FieldPath(path + ".", "per_architecture", j);
      if (special.architectures.empty()) {
        return FieldError(here + ".architectures", "is empty: name what the values are for");
      }
      HONE_RETURN_IF_ERROR(CheckArchitectures(here + ".architectures", special.architectures));
      HONE_RETURN_IF_ERROR(CheckValues(here, special.values, special.default_value));
    }
  }
  return absl::OkStatus();
}

}  // namespace hone
