#include "runtime/kernel/name_scope.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/problem_chains.h"
#include "runtime/kernel/template_text.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {
namespace {

using Op = Expression::Op;

absl::string_view TypeName(ExpressionType type) {
  switch (type) {
    case ExpressionType::kInteger:
      return "a number";
    case ExpressionType::kDtype:
      return "a data type";
    case ExpressionType::kChoice:
      return "a choice";
    case ExpressionType::kChain:
      return "an operator chain";
  }
  return "";
}

ExpressionType TypeOfParameter(const Parameter& parameter) {
  if (parameter.kind == ParameterKind::kDtype) return ExpressionType::kDtype;
  if (parameter.kind == ParameterKind::kChoice) return ExpressionType::kChoice;
  if (parameter.kind == ParameterKind::kChain) return ExpressionType::kChain;
  return ExpressionType::kInteger;
}

absl::Status WrongType(const Expression& expression, ExpressionType actual,
                       absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("\"", expression.ToString(), "\" is ",
                                                 TypeName(actual), " where ", expected,
                                                 " is expected"));
}

}  // namespace

NameScope NameScope::ForProblem(const TemplateSpec& spec, const TemplateBody& body) {
  NameScope scope;
  for (const Parameter& parameter : spec.params) {
    scope.names_.emplace(parameter.name, TypeOfParameter(parameter));
    for (const std::string& fact : ChainFactNames(parameter)) {
      scope.chain_facts_.emplace(fact, ExpressionType::kInteger);
    }
    for (const std::string& choice : parameter.choices) {
      scope.choices_.emplace(choice, ExpressionType::kChoice);
    }
    if (parameter.kind == ParameterKind::kSize && parameter.dynamic) {
      scope.unspelled_.emplace(parameter.name,
                               "is a dynamic size: it is passed as an argument, not compiled in");
    }
  }
  for (const Tunable& tunable : body.tunables) {
    scope.refused_.emplace(tunable.name,
                           "is a tunable, and this must be the same for every config");
  }
  return scope;
}

NameScope NameScope::ForConfig(const TemplateSpec& spec, const TemplateBody& body) {
  NameScope scope = ForProblem(spec, body);
  scope.refused_.clear();
  for (const Tunable& tunable : body.tunables) {
    scope.names_.emplace(tunable.name, ExpressionType::kInteger);
  }
  return scope;
}

NameScope NameScope::WithoutDynamicSizes(const TemplateSpec& spec) const {
  NameScope scope = *this;
  for (const Parameter& parameter : spec.params) {
    if (parameter.kind != ParameterKind::kSize || !parameter.dynamic) continue;
    scope.names_.erase(parameter.name);
    scope.refused_[parameter.name] = "is a dynamic size, and this must be known before the launch";
  }
  return scope;
}

std::string NameScope::Known() const {
  return absl::StrJoin(names_, ", ",
                       [](std::string* out, const auto& name) { *out += name.first; });
}

absl::StatusOr<ExpressionType> NameScope::TypeOfName(const std::string& name) const {
  if (const auto it = names_.find(name); it != names_.end()) return it->second;
  if (const auto it = refused_.find(name); it != refused_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" ", it->second));
  }
  if (ParseDataType(name).has_value()) return ExpressionType::kDtype;
  if (choices_.count(name) > 0) return ExpressionType::kChoice;
  if (chain_facts_.count(name) > 0) return ExpressionType::kInteger;
  if (IsDeviceFact(name)) return ExpressionType::kInteger;
  if (absl::StartsWith(name, "device.")) {
    std::vector<std::string> facts;
    for (const auto& [fact, value] : DeviceInfo().Facts()) facts.push_back(fact);
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is no device fact; there are ", absl::StrJoin(facts, ", ")));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown name \"", name, "\"", names_.empty() ? "" : "; known here: ", Known()));
}

absl::StatusOr<ExpressionType> NameScope::TypeOf(const Expression& expression) const {
  if (expression.op() == Op::kConst) return ExpressionType::kInteger;
  if (expression.op() == Op::kVar) return TypeOfName(expression.variable());
  std::vector<ExpressionType> types;
  for (const Expression& operand : expression.operands()) {
    HONE_ASSIGN_OR_RETURN(const ExpressionType type, TypeOf(operand));
    types.push_back(type);
  }
  const bool compares = expression.op() == Op::kEq || expression.op() == Op::kNe;
  const bool measures = expression.op() == Op::kSizeOf || expression.op() == Op::kBits;
  for (size_t i = 0; i < types.size(); ++i) {
    const Expression& operand = expression.operands()[i];
    if (compares) {
      if (types[i] != types[0]) return WrongType(operand, types[i], TypeName(types[0]));
      const bool is_name = operand.op() == Op::kVar;
      if (types[i] != ExpressionType::kInteger && !is_name) {
        return WrongType(operand, types[i], "a name");
      }
    } else if (measures) {
      if (types[i] != ExpressionType::kDtype) return WrongType(operand, types[i], "a data type");
    } else if (types[i] != ExpressionType::kInteger) {
      return WrongType(operand, types[i], "a number");
    }
  }
  return ExpressionType::kInteger;
}

absl::Status NameScope::CheckInteger(absl::string_view path, const Expression& expression) const {
  const absl::StatusOr<ExpressionType> type = TypeOf(expression);
  if (!type.ok()) return AtField(path, type.status());
  if (*type == ExpressionType::kInteger) return absl::OkStatus();
  return AtField(path, WrongType(expression, *type, "a number"));
}

absl::Status NameScope::CheckPlaceholders(absl::string_view path, absl::string_view text) const {
  const absl::StatusOr<std::set<std::string>> placeholders = PlaceholdersOf(text);
  if (!placeholders.ok()) return AtField(path, placeholders.status());
  for (const std::string& name : *placeholders) {
    std::string why;
    if (const auto it = unspelled_.find(name); it != unspelled_.end()) {
      why = it->second;
    } else if (const auto refused = refused_.find(name); refused != refused_.end()) {
      why = refused->second;
    } else if (names_.count(name) == 0) {
      why = absl::StrCat("is not declared; known here: ", Known());
    }
    if (!why.empty()) return FieldError(path, absl::StrCat("${", name, "} ", why));
  }
  return absl::OkStatus();
}

}  // namespace hone
