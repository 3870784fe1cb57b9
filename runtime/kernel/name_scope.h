// Which names an expression or entry may use, and of what type: static checks of a template.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/kernel/kernel_template.h"

namespace hone {

enum class ExpressionType { kInteger, kDtype, kChoice, kChain };

class NameScope {
 public:
  // Parameters, data types, choices and device facts. A tunable is refused with the reason that the
  // field must be the same for every config.
  static NameScope ForProblem(const TemplateSpec& spec, const TemplateBody& body);
  // The same and the body's tunables.
  static NameScope ForConfig(const TemplateSpec& spec, const TemplateBody& body);

  // The same scope with dynamic sizes refused.
  NameScope WithoutDynamicSizes(const TemplateSpec& spec) const;

  // INVALID_ARGUMENT at `path`: an unknown or refused name, or operands of the wrong type. The
  // result must be an integer.
  absl::Status CheckInteger(absl::string_view path, const Expression& expression) const;
  // Placeholders of an entry or define: parameters and tunables, no dynamic sizes.
  absl::Status CheckPlaceholders(absl::string_view path, absl::string_view text) const;

 private:
  absl::StatusOr<ExpressionType> TypeOf(const Expression& expression) const;
  absl::StatusOr<ExpressionType> TypeOfName(const std::string& name) const;
  std::string Known() const;

  std::map<std::string, ExpressionType> names_;  // parameters and tunables
  std::map<std::string, ExpressionType> choices_;
  std::map<std::string, ExpressionType> chain_facts_;  // "f.a", "f.operations"
  std::map<std::string, std::string> refused_;         // name -> why
  std::map<std::string, std::string> unspelled_;       // names without a C++ spelling -> why
};

}  // namespace hone
