#include "runtime/kernel/template_warnings.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/template_binder.h"
#include "runtime/launch/launch_recipe.h"

namespace hone {
namespace {

// Enough for every data type with a few choices; the rest adds nothing but time. Together they
// bound what one registration costs to well under a second.
constexpr size_t kProblemsMax = 32;
constexpr int kConfigsMax = 512;
constexpr int64_t kStepsMax = 20'000;

// An architecture that gets this body and that the template supports; empty if none is known.
std::string ArchitectureOf(const KernelTemplate& kernel_template, const TemplateBody& body,
                           const std::vector<std::string>& named) {
  std::vector<std::string> candidates = named;
  for (const PrebuiltCandidate& prebuilt : kernel_template.spec().prebuilt) {
    candidates.push_back(prebuilt.architecture);
  }
  if (!kernel_template.spec().requirements.min_architecture.empty()) {
    candidates.push_back(kernel_template.spec().requirements.min_architecture);
  }
  for (const char* common : {"sm_90a", "sm_100a", "sm_80", "sm_120a", "cpu"}) {
    candidates.push_back(common);
  }
  for (const std::string& architecture : candidates) {
    if (&kernel_template.BodyFor(architecture) == &body &&
        kernel_template.SupportsArchitecture(architecture).ok()) {
      return architecture;
    }
  }
  return "";
}

std::vector<Value> ValuesToTry(const Parameter& parameter) {
  std::vector<Value> values;
  switch (parameter.kind) {
    case ParameterKind::kDtype:
      values.assign(parameter.dtypes.begin(), parameter.dtypes.end());
      return values;
    case ParameterKind::kChoice:
      values.assign(parameter.choices.begin(), parameter.choices.end());
      return values;
    case ParameterKind::kChain:
      for (const ChainPreset& preset : parameter.presets) values.emplace_back(preset.name);
      if (parameter.default_value.has_value()) values.push_back(*parameter.default_value);
      if (values.empty()) values.emplace_back(parameter.chain_names.inputs.front());
      return values;
    case ParameterKind::kFlag:
      return {int64_t{0}, int64_t{1}};
    case ParameterKind::kSize:
      break;
  }
  if (parameter.default_value.has_value()) return {*parameter.default_value};
  // A round size that most divisibility constraints like.
  const int64_t multiple = parameter.multiple_of;
  const int64_t wanted = std::clamp<int64_t>(1024, parameter.min, parameter.max);
  const int64_t size = wanted / multiple * multiple;
  return {size >= parameter.min ? size : (parameter.min + multiple - 1) / multiple * multiple};
}

std::vector<Values> ProblemsToTry(const KernelTemplate& kernel_template) {
  std::vector<Values> problems = {{}};
  for (const Parameter& parameter : kernel_template.spec().params) {
    std::vector<Values> extended;
    for (const Values& problem : problems) {
      for (const Value& value : ValuesToTry(parameter)) {
        if (extended.size() >= kProblemsMax) break;
        extended.push_back(problem);
        extended.back()[parameter.name] = value;
      }
    }
    problems = std::move(extended);
  }
  return problems;
}

// What keeps a config from accepting every declared input; empty if nothing does.
std::string Restriction(const KernelTemplate& kernel_template, const TemplateBody& body,
                        const Problem& problem, const Config& config) {
  const TemplateBinder binder(kernel_template, body, problem, config, {});
  const auto arguments = binder.Arguments();
  if (!arguments.ok()) return std::string(arguments.status().message());
  for (const RecipeArgument& argument : *arguments) {
    const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind);
    if (buffer == nullptr || buffer->alignment_bytes <= SizeBytes(buffer->dtype)) continue;
    return absl::StrCat(argument.name, " must be aligned to ", buffer->alignment_bytes,
                        " bytes, more than its element");
  }
  const std::vector<std::string> dynamic = binder.DynamicSizes();
  for (const Expression& constraint : body.constraints) {
    const auto bound = binder.BindConstraint("constraints", constraint);
    if (!bound.ok()) return std::string(bound.status().message());
    for (const std::string& name : bound->Variables()) {
      if (std::find(dynamic.begin(), dynamic.end(), name) == dynamic.end()) continue;
      return absl::StrCat("constraint \"", constraint.ToString(), "\" depends on ", name);
    }
  }
  return "";
}

void AddOnce(std::vector<std::string>& warnings, std::string warning) {
  if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) {
    warnings.push_back(std::move(warning));
  }
}

std::string Specialised(const Problem& problem) { return ToString(problem.specialised()); }

void WarnAboutProblem(const KernelTemplatePtr& kernel_template, const TemplateBody& body,
                      const std::string& architecture, const Problem& problem,
                      std::vector<std::string>& warnings) {
  const auto space = ConfigSpace::Create(kernel_template, problem, architecture, {});
  if (!space.ok()) return;
  std::string first_restriction;
  bool accepts_all = false;
  int visited = 0;
  const bool covered = space->ForEachValid(
      [&](const Config& config) {
        const std::string restriction = Restriction(*kernel_template, body, problem, config);
        accepts_all = restriction.empty();
        if (first_restriction.empty()) first_restriction = restriction;
        return !accepts_all && ++visited < kConfigsMax;
      },
      kStepsMax);
  const bool looked_at_all = covered && visited < kConfigsMax;
  const std::string where = absl::StrCat(" on ", architecture, " for ", Specialised(problem));
  if (looked_at_all && visited == 0 && !accepts_all) {
    AddOnce(warnings, absl::StrCat("no valid config", where, " at ", problem.ToString()));
    return;
  }
  if (looked_at_all && !accepts_all) {
    AddOnce(warnings, absl::StrCat("no config accepts every declared input", where,
                                   "; the first one does not because ", first_restriction));
  }
  if (const auto standard = space->Default(); !standard.ok()) {
    AddOnce(warnings, absl::StrCat(standard.status().message(), where));
  }
}

}  // namespace

std::vector<std::string> TemplateWarnings(const KernelTemplatePtr& kernel_template) {
  const TemplateSpec& spec = kernel_template->spec();
  std::vector<std::string> warnings;
  const bool has_reference = std::any_of(
      spec.checks.begin(), spec.checks.end(),
      [](const TemplateCheck& check) { return !check.reference.empty() || !check.chain.empty(); });
  if (!has_reference) {
    warnings.push_back("no reference: candidates are compared with the default config only");
  }
  std::vector<std::pair<const TemplateBody*, std::vector<std::string>>> bodies = {{&spec.base, {}}};
  for (const ArchitectureBody& variant : spec.variants) {
    bodies.emplace_back(&variant.body, variant.architectures);
  }
  for (const auto& [body, named] : bodies) {
    const std::string architecture = ArchitectureOf(*kernel_template, *body, named);
    if (architecture.empty()) continue;
    for (const Values& values : ProblemsToTry(*kernel_template)) {
      const auto problem = Problem::Create(*kernel_template, values);
      if (problem.ok()) WarnAboutProblem(kernel_template, *body, architecture, *problem, warnings);
    }
  }
  return warnings;
}

}  // namespace hone
