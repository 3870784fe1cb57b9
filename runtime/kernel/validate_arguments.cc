// Arguments: buffers with their inits, scalars, tensor maps, scratch.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/template_text.h"
#include "runtime/kernel/validate_template.h"

namespace hone {
namespace {

struct Scopes {
  NameScope problem;
  NameScope config;
  NameScope config_static;  // without dynamic sizes
};

struct InitRule {
  InitKind kind;
  absl::string_view name;
  bool low;
  bool high;
  bool skew;
};

constexpr InitRule kInitRules[] = {
    {InitKind::kNormal, "NORMAL", false, false, false},
    {InitKind::kUniform, "UNIFORM", false, false, false},
    {InitKind::kUniformInt, "UNIFORM_INT", true, true, false},
    {InitKind::kIota, "IOTA", false, false, false},
    {InitKind::kIndex, "INDEX", false, true, false},
    {InitKind::kPermutation, "PERMUTATION", false, false, false},
    {InitKind::kOffsets, "OFFSETS", false, true, true},
    {InitKind::kZeros, "ZEROS", false, false, false},
    {InitKind::kGenerator, "GENERATOR", false, false, false},
};

// Each init takes exactly the fields it uses: a field it would ignore is refused.
absl::Status CheckInitFields(const std::string& path, const TemplateBuffer& buffer,
                             const NameScope& scope) {
  const InitRule* rule = std::find_if(std::begin(kInitRules), std::end(kInitRules),
                                      [&](const InitRule& r) { return r.kind == *buffer.init; });
  if (rule == std::end(kInitRules)) return FieldError(path + ".init", "unknown");
  const auto check = [&](const std::string& field, bool used, bool given) {
    if (used == given) return absl::OkStatus();
    return FieldError(field, used ? absl::StrCat("init: ", rule->name, " needs it")
                                  : absl::StrCat("init: ", rule->name, " does not use it"));
  };
  HONE_RETURN_IF_ERROR(check(path + ".init_low", rule->low, buffer.init_low.has_value()));
  HONE_RETURN_IF_ERROR(check(path + ".init_high", rule->high, buffer.init_high.has_value()));
  if (!rule->skew) HONE_RETURN_IF_ERROR(check(path + ".init_skew", false, buffer.init_skew != 0));
  HONE_RETURN_IF_ERROR(check(path + ".generator", rule->kind == InitKind::kGenerator,
                             !buffer.generator_entry.empty()));
  if (!std::isfinite(buffer.init_skew) || buffer.init_skew < 0) {
    return FieldError(path + ".init_skew", "expected a finite number of at least 0");
  }
  if (buffer.init_low) {
    HONE_RETURN_IF_ERROR(scope.CheckInteger(path + ".init_low", *buffer.init_low));
  }
  if (buffer.init_high) {
    HONE_RETURN_IF_ERROR(scope.CheckInteger(path + ".init_high", *buffer.init_high));
  }
  if (buffer.generator_entry.empty()) return absl::OkStatus();
  HONE_RETURN_IF_ERROR(ValidateEntry(path + ".generator.entry", scope, buffer.generator_entry));
  return ValidateLaunch(path + ".generator.launch", scope, buffer.generator_launch.shape);
}

absl::Status CheckInit(const TemplateSpec& spec, const std::string& path,
                       const TemplateBuffer& buffer, const NameScope& scope) {
  const bool any = buffer.init.has_value() || buffer.init_low.has_value() ||
                   buffer.init_high.has_value() || buffer.init_skew != 0 ||
                   !buffer.generator_entry.empty();
  if (buffer.access == Access::kWrite) {
    if (!any) return absl::OkStatus();
    return FieldError(path + ".init", "a WRITE buffer is poisoned before checks, not initialised");
  }
  if (buffer.init.has_value()) return CheckInitFields(path, buffer, scope);
  if (any)
    return FieldError(path + ".init", "init_low, init_high, init_skew or generator without it");
  for (const DataType type : PossibleDtypes(spec, buffer.dtype)) {
    if (IsFloatingPoint(type)) continue;
    return FieldError(path + ".init",
                      absl::StrCat("an integer input needs one, and the type may be ", Name(type)));
  }
  return absl::OkStatus();
}

absl::Status CheckExpressions(absl::string_view prefix, absl::string_view field,
                              const std::vector<Expression>& expressions, const NameScope& scope) {
  for (size_t i = 0; i < expressions.size(); ++i) {
    HONE_RETURN_IF_ERROR(scope.CheckInteger(FieldPath(prefix, field, i), expressions[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckBuffer(const TemplateSpec& spec, const TemplateBody& body,
                         const std::string& path, const TemplateBuffer& buffer,
                         const Scopes& scopes) {
  if (PossibleDtypes(spec, buffer.dtype).empty()) {
    return FieldError(path + ".dtype", absl::StrCat("\"", buffer.dtype,
                                                    "\" is neither a data type like F32 nor a "
                                                    "dtype parameter"));
  }
  HONE_RETURN_IF_ERROR(CheckCount(path + ".shape", buffer.shape.size(), TemplateLimits::kRank));
  HONE_RETURN_IF_ERROR(CheckExpressions(path + ".", "shape", buffer.shape, scopes.problem));
  if (!buffer.strides.empty() && buffer.strides.size() != buffer.shape.size()) {
    return FieldError(path + ".strides", absl::StrCat(buffer.strides.size(), " strides for ",
                                                      buffer.shape.size(), " dimensions"));
  }
  HONE_RETURN_IF_ERROR(CheckExpressions(path + ".", "strides", buffer.strides, scopes.problem));
  if (buffer.alignment_bytes.has_value()) {
    HONE_RETURN_IF_ERROR(
        scopes.config_static.CheckInteger(path + ".alignment_bytes", *buffer.alignment_bytes));
  }
  for (size_t i = 0; i < buffer.may_alias.size(); ++i) {
    if (FindBuffer(body, buffer.may_alias[i]) != nullptr) continue;
    return FieldError(FieldPath(path + ".", "may_alias", i),
                      absl::StrCat("\"", buffer.may_alias[i], "\" is not a buffer argument"));
  }
  return CheckInit(spec, path, buffer, scopes.problem);
}

absl::Status CheckScalar(const std::string& path, const TemplateScalar& scalar,
                         const Scopes& scopes) {
  if (scalar.value.has_value()) return scopes.config.CheckInteger(path + ".value", *scalar.value);
  if (!std::isfinite(scalar.sample)) {
    return FieldError(path + ".per_launch.sample", "expected a finite number");
  }
  return absl::OkStatus();
}

absl::Status CheckTensorMap(const TemplateBody& body, const std::string& path,
                            const RecipeTensorMap& map, const Scopes& scopes) {
  const TemplateBuffer* buffer = FindBuffer(body, map.buffer);
  if (buffer == nullptr) {
    return FieldError(path + ".buffer",
                      absl::StrCat("\"", map.buffer, "\" is not a buffer argument"));
  }
  if (buffer->optional) {
    return FieldError(path + ".buffer", absl::StrCat("\"", map.buffer, "\" is optional, and a ",
                                                     "tensor map needs an address"));
  }
  const size_t rank = map.dims.size();
  if (rank < 1 || rank > 5) {
    return FieldError(path + ".dims", absl::StrCat(rank, " dimensions; a tensor map has 1 to 5"));
  }
  const auto count = [&](absl::string_view field, size_t actual, size_t expected) {
    if (actual == expected) return absl::OkStatus();
    return FieldError(
        absl::StrCat(path, ".", field),
        absl::StrCat(actual, " entries; expected ", expected, " for ", rank, " dimensions"));
  };
  HONE_RETURN_IF_ERROR(count("strides_bytes", map.strides_bytes.size(), rank - 1));
  HONE_RETURN_IF_ERROR(count("box", map.box.size(), rank));
  if (!map.element_strides.empty()) {
    HONE_RETURN_IF_ERROR(count("element_strides", map.element_strides.size(), rank));
  }
  const std::string prefix = path + ".";
  HONE_RETURN_IF_ERROR(CheckExpressions(prefix, "dims", map.dims, scopes.config));
  HONE_RETURN_IF_ERROR(CheckExpressions(prefix, "strides_bytes", map.strides_bytes, scopes.config));
  HONE_RETURN_IF_ERROR(CheckExpressions(prefix, "box", map.box, scopes.config));
  return CheckExpressions(prefix, "element_strides", map.element_strides, scopes.config);
}

absl::Status CheckArgument(const TemplateSpec& spec, const TemplateBody& body,
                           const std::string& path, const TemplateArgument& argument,
                           const Scopes& scopes) {
  if (const auto* buffer = std::get_if<TemplateBuffer>(&argument.kind)) {
    return CheckBuffer(spec, body, path + ".buffer", *buffer, scopes);
  }
  if (const auto* scalar = std::get_if<TemplateScalar>(&argument.kind)) {
    return CheckScalar(path + ".scalar", *scalar, scopes);
  }
  if (const auto* map = std::get_if<TemplateTensorMap>(&argument.kind)) {
    return CheckTensorMap(body, path + ".tensor_map", map->map, scopes);
  }
  return scopes.config.CheckInteger(path + ".scratch.bytes",
                                    std::get<TemplateScratch>(argument.kind).bytes);
}

}  // namespace

std::vector<DataType> PossibleDtypes(const TemplateSpec& spec, const std::string& dtype) {
  for (const Parameter& parameter : spec.params) {
    if (parameter.name == dtype) return parameter.dtypes;
  }
  if (const auto type = ParseDataType(dtype)) return {*type};
  return {};
}

absl::Status ValidateArguments(const TemplateSpec& spec, const TemplateBody& body,
                               absl::string_view prefix) {
  HONE_RETURN_IF_ERROR(CheckCount(absl::StrCat(prefix, "arguments"), body.arguments.size(),
                                  TemplateLimits::kArguments));
  const NameScope config = NameScope::ForConfig(spec, body);
  const Scopes scopes{NameScope::ForProblem(spec, body), config, config.WithoutDynamicSizes(spec)};
  std::set<std::string> seen;
  for (size_t i = 0; i < body.arguments.size(); ++i) {
    const TemplateArgument& argument = body.arguments[i];
    const std::string path = FieldPath(prefix, "arguments", i);
    HONE_RETURN_IF_ERROR(CheckText(path + ".name", argument.name, 255));
    if (!IsIdentifier(argument.name)) {
      return FieldError(path + ".name",
                        absl::StrCat("\"", argument.name, "\" is not an identifier"));
    }
    if (!seen.insert(argument.name).second) {
      return FieldError(path + ".name", absl::StrCat("\"", argument.name, "\" is declared twice"));
    }
    HONE_RETURN_IF_ERROR(CheckArgument(spec, body, path, argument, scopes));
  }
  return absl::OkStatus();
}

}  // namespace hone
