// Steps, launches and constraints.
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/template_text.h"
#include "runtime/kernel/validate_template.h"

namespace hone {
namespace {

absl::Status CheckMemset(const TemplateBody& body, const std::string& path,
                         const TemplateStep& step, const NameScope& scope) {
  const std::string here = path + ".memset";
  const int index = FindArgument(body, step.memset_argument);
  if (index < 0) {
    return FieldError(here + ".argument",
                      absl::StrCat("\"", step.memset_argument, "\" is not an argument"));
  }
  const TemplateArgument& argument = body.arguments[index];
  const auto* buffer = std::get_if<TemplateBuffer>(&argument.kind);
  const bool writable = std::holds_alternative<TemplateScratch>(argument.kind) ||
                        (buffer != nullptr && buffer->access != Access::kRead);
  if (!writable) {
    return FieldError(here + ".argument", absl::StrCat("\"", step.memset_argument,
                                                       "\" is not scratch or a written buffer"));
  }
  if (step.memset_value < 0 || step.memset_value > 255) {
    return FieldError(here + ".value", absl::StrCat(step.memset_value, "; a byte is 0 to 255"));
  }
  if (step.programmatic_dependent_launch) {
    return FieldError(path + ".programmatic_dependent_launch", "a memset has no such launch");
  }
  if (!step.memset_bytes.has_value()) return absl::OkStatus();
  return scope.CheckInteger(here + ".bytes", *step.memset_bytes);
}

absl::Status CheckKernel(TemplateBody& body, size_t index, const std::string& path,
                         const NameScope& scope) {
  TemplateStep& step = body.steps[index];
  HONE_RETURN_IF_ERROR(ValidateEntry(path + ".entry", scope, step.entry));
  HONE_RETURN_IF_ERROR(ValidateLaunch(path + ".launch", scope, step.launch.shape));
  HONE_RETURN_IF_ERROR(
      CheckCount(path + ".arguments", step.arguments.size(), TemplateLimits::kArguments));
  for (size_t i = 0; i < step.arguments.size(); ++i) {
    if (FindArgument(body, step.arguments[i]) >= 0) continue;
    return FieldError(FieldPath(path + ".", "arguments", i),
                      absl::StrCat("\"", step.arguments[i], "\" is not an argument"));
  }
  if (step.arguments.empty()) {
    for (const TemplateArgument& argument : body.arguments) step.arguments.push_back(argument.name);
  }
  if (step.programmatic_dependent_launch && (index == 0 || body.steps[index - 1].entry.empty())) {
    return FieldError(path + ".programmatic_dependent_launch",
                      "needs a kernel step directly before this one");
  }
  return absl::OkStatus();
}

absl::Status CheckStep(TemplateBody& body, size_t index, const std::string& path,
                       const NameScope& scope) {
  const TemplateStep& step = body.steps[index];
  if (step.when.has_value()) {
    HONE_RETURN_IF_ERROR(scope.CheckInteger(path + ".when", *step.when));
  }
  if (!step.entry.empty()) return CheckKernel(body, index, path, scope);
  return CheckMemset(body, path, step, scope);
}

absl::Status ValidateConstraints(const TemplateBody& body, absl::string_view prefix,
                                 const NameScope& scope) {
  HONE_RETURN_IF_ERROR(CheckCount(absl::StrCat(prefix, "constraints"), body.constraints.size(),
                                  TemplateLimits::kConstraints));
  for (size_t i = 0; i < body.constraints.size(); ++i) {
    HONE_RETURN_IF_ERROR(
        scope.CheckInteger(FieldPath(prefix, "constraints", i), body.constraints[i]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateEntry(absl::string_view path, const NameScope& scope,
                           const std::string& entry) {
  if (entry.empty()) return FieldError(path, "is empty");
  HONE_RETURN_IF_ERROR(CheckText(path, entry, TemplateLimits::kLineBytes));
  return scope.CheckPlaceholders(path, entry);
}

absl::Status ValidateLaunch(absl::string_view path, const NameScope& scope,
                            const LaunchShape& launch) {
  constexpr char kAxes[] = "xyz";
  const auto check = [&](absl::string_view what, const std::array<Expression, 3>& extents) {
    for (size_t axis = 0; axis < 3; ++axis) {
      const std::string here = absl::StrCat(path, ".", what, "_", std::string(1, kAxes[axis]));
      HONE_RETURN_IF_ERROR(scope.CheckInteger(here, extents[axis]));
      if (extents[axis].is_constant() && extents[axis].constant() < 1) {
        return FieldError(here, absl::StrCat(extents[axis].constant(), "; expected at least 1"));
      }
    }
    return absl::OkStatus();
  };
  HONE_RETURN_IF_ERROR(check("grid", launch.grid));
  HONE_RETURN_IF_ERROR(check("block", launch.block));
  HONE_RETURN_IF_ERROR(check("cluster", launch.cluster));
  const std::string shared = absl::StrCat(path, ".dynamic_shared_bytes");
  HONE_RETURN_IF_ERROR(scope.CheckInteger(shared, launch.dynamic_shared_bytes));
  if (launch.dynamic_shared_bytes.is_constant() && launch.dynamic_shared_bytes.constant() < 0) {
    return FieldError(shared, "is negative");
  }
  return absl::OkStatus();
}

absl::Status ValidateSteps(const TemplateSpec& spec, TemplateBody& body, absl::string_view prefix) {
  const NameScope scope = NameScope::ForConfig(spec, body);
  HONE_RETURN_IF_ERROR(ValidateConstraints(body, prefix, scope));
  const std::string path = absl::StrCat(prefix, "steps");
  if (body.steps.empty()) return FieldError(path, "is empty: a template needs a kernel to launch");
  HONE_RETURN_IF_ERROR(CheckCount(path, body.steps.size(), TemplateLimits::kSteps));
  bool has_kernel = false;
  for (size_t i = 0; i < body.steps.size(); ++i) {
    HONE_RETURN_IF_ERROR(CheckStep(body, i, FieldPath(prefix, "steps", i), scope));
    has_kernel = has_kernel || !body.steps[i].entry.empty();
  }
  if (!has_kernel) return FieldError(path, "has memsets only: a template needs a kernel to launch");
  return absl::OkStatus();
}

}  // namespace hone
