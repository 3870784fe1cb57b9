#include "runtime/kernel/problem.h"

#include <algorithm>
#include <bit>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/align.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/problem_chains.h"

namespace hone {
namespace {

// What a caller may give, for errors.
std::string Domain(const Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::kDtype:
      return absl::StrCat(
          "one of ", absl::StrJoin(parameter.dtypes, ", ", [](std::string* out, DataType type) {
            absl::StrAppend(out, Name(type));
          }));
    case ParameterKind::kChoice:
      return absl::StrCat("one of ", absl::StrJoin(parameter.choices, ", "));
    case ParameterKind::kFlag:
      return "true or false";
    case ParameterKind::kChain:
      return absl::StrCat(
          "an expression over ", absl::StrJoin(parameter.chain_names.inputs, ", "),
          parameter.presets.empty() ? "" : " or one of ",
          absl::StrJoin(parameter.presets, ", ",
                        [](std::string* out, const ChainPreset& preset) { *out += preset.name; }));
    case ParameterKind::kSize:
      break;
  }
  std::string text = parameter.max == Parameter().max
                         ? absl::StrCat("an integer of at least ", parameter.min)
                         : absl::StrCat("an integer from ", parameter.min, " to ", parameter.max);
  if (parameter.multiple_of > 1) absl::StrAppend(&text, ", a multiple of ", parameter.multiple_of);
  return text;
}

bool Contains(const Parameter& parameter, const Value& value) {
  switch (parameter.kind) {
    case ParameterKind::kDtype: {
      const auto* type = std::get_if<DataType>(&value);
      return type != nullptr && std::count(parameter.dtypes.begin(), parameter.dtypes.end(), *type);
    }
    case ParameterKind::kChoice: {
      const auto* text = std::get_if<std::string>(&value);
      return text != nullptr &&
             std::count(parameter.choices.begin(), parameter.choices.end(), *text);
    }
    case ParameterKind::kChain:
      return std::holds_alternative<std::string>(value);
    case ParameterKind::kFlag: {
      const auto* flag = std::get_if<int64_t>(&value);
      return flag != nullptr && (*flag == 0 || *flag == 1);
    }
    case ParameterKind::kSize: {
      const auto* size = std::get_if<int64_t>(&value);
      return size != nullptr && *size >= parameter.min && *size <= parameter.max &&
             *size % parameter.multiple_of == 0;
    }
  }
  return false;
}

// Text stands for any kind of value, as command lines and stored problems have it.
Value FromText(const Parameter& parameter, const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return value;
  int64_t integer = 0;
  switch (parameter.kind) {
    case ParameterKind::kDtype:
      if (const auto type = ParseDataType(*text)) return *type;
      return value;
    case ParameterKind::kFlag:
      if (*text == "true") return int64_t{1};
      if (*text == "false") return int64_t{0};
      if (absl::SimpleAtoi(*text, &integer)) return integer;
      return value;
    case ParameterKind::kSize:
      if (absl::SimpleAtoi(*text, &integer)) return integer;
      return value;
    case ParameterKind::kChoice:
    case ParameterKind::kChain:
      return value;
  }
  return value;
}

std::string ParameterNames(const KernelTemplate& kernel_template) {
  return absl::StrJoin(
      kernel_template.spec().params, ", ",
      [](std::string* out, const Parameter& parameter) { *out += parameter.name; });
}

bool IsDynamic(const Parameter& parameter) {
  return parameter.kind == ParameterKind::kSize && parameter.dynamic;
}

}  // namespace

absl::StatusOr<Problem> Problem::Create(const KernelTemplate& kernel_template,
                                        const Values& values) {
  for (const auto& [name, value] : values) {
    if (kernel_template.FindParameter(name) == nullptr) {
      return FieldError(
          absl::StrCat("params.", name),
          absl::StrCat("template ", kernel_template.name(), " has no such parameter; it has ",
                       ParameterNames(kernel_template)));
    }
  }
  Problem problem;
  const Values known = WithPresetParams(kernel_template.spec().params, values);
  for (const Parameter& parameter : kernel_template.spec().params) {
    const auto given = known.find(parameter.name);
    const std::string path = absl::StrCat("params.", parameter.name);
    std::optional<Value> chosen = parameter.default_value;
    if (!parameter.default_from.empty()) chosen = problem.values_[parameter.default_from];
    if (given != known.end()) chosen = given->second;
    if (!chosen.has_value()) {
      return FieldError(path, absl::StrCat("not given; expected ", Domain(parameter)));
    }
    const absl::StatusOr<Value> read = ReadValue(parameter, *chosen);
    if (!read.ok()) return AtField(path, read.status());
    const Value& value = *read;
    problem.values_[parameter.name] = value;
    if (IsDynamic(parameter)) {
      problem.dynamic_sizes_[parameter.name] = std::get<int64_t>(value);
    } else {
      problem.specialised_[parameter.name] = value;
    }
  }
  return problem;
}

absl::StatusOr<Problem> Problem::Parse(const KernelTemplate& kernel_template,
                                       const std::string& text) {
  Values values;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (parts.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("problem \"", text, "\": \"", word, "\" is not NAME=VALUE"));
    }
    if (!values.emplace(parts[0], parts[1]).second) {
      return FieldError(absl::StrCat("params.", parts[0]), "given twice");
    }
  }
  return Create(kernel_template, values);
}

Problem Problem::Bucketed(const KernelTemplate& kernel_template) const {
  Problem result = *this;
  for (const Parameter& parameter : kernel_template.spec().params) {
    const auto it = result.values_.find(parameter.name);
    if (parameter.kind != ParameterKind::kSize || it == result.values_.end()) continue;
    const int64_t bucket = BucketOf(parameter, std::get<int64_t>(it->second));
    it->second = bucket;
    if (parameter.dynamic) {
      result.dynamic_sizes_[parameter.name] = bucket;
    } else {
      result.specialised_[parameter.name] = bucket;
    }
  }
  return result;
}

Problem Problem::WithSizes(const SizeBindings& sizes) const {
  Problem result = *this;
  for (const auto& [name, size] : sizes) {
    if (result.dynamic_sizes_.count(name) == 0) continue;
    result.dynamic_sizes_[name] = size;
    result.values_[name] = size;
  }
  return result;
}

std::string Problem::ToString() const { return hone::ToString(values_); }

absl::StatusOr<Value> ReadValue(const Parameter& parameter, const Value& value) {
  if (parameter.kind == ParameterKind::kChain) {
    HONE_ASSIGN_OR_RETURN(const Chain chain, ReadChain(parameter, value));
    return Value(chain.text());
  }
  const Value read = FromText(parameter, value);
  if (Contains(parameter, read)) return read;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", hone::ToString(read), "\" is not ", Domain(parameter)));
}

int64_t BucketOf(const Parameter& parameter, int64_t size) {
  switch (parameter.bucket) {
    case BucketRule::kExact:
      return size;
    case BucketRule::kList: {
      const auto above =
          std::upper_bound(parameter.bucket_values.begin(), parameter.bucket_values.end(), size);
      return above == parameter.bucket_values.begin() ? *above : *(above - 1);
    }
    case BucketRule::kPow2:
      break;
  }
  const int64_t smallest = AlignUp(std::max<int64_t>(parameter.min, 1), parameter.multiple_of);
  if (smallest > parameter.max) return size;  // only 0 is declared
  const auto power =
      size < 1 ? int64_t{1} : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(size)));
  return std::max(power / parameter.multiple_of * parameter.multiple_of, smallest);
}

}  // namespace hone
