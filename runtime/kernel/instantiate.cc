#include "runtime/kernel/instantiate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/prebuilt.h"
#include "runtime/kernel/program_frame.h"
#include "runtime/kernel/template_binder.h"
#include "runtime/kernel/validate_template.h"

namespace hone {
namespace {

// A step left out for every size and device. Decided without device facts, so that the program of a
// config is the same wherever it is compiled.
bool NeverRuns(const TemplateBinder& without_facts, const std::string& path,
               const TemplateStep& step) {
  if (!step.when.has_value()) return false;
  const absl::StatusOr<Expression> when = without_facts.Bind(path + ".when", *step.when);
  return when.ok() && when->is_constant() && when->constant() == 0;
}

absl::StatusOr<RecipeStep> BindMemset(const TemplateBinder& binder, const std::string& path,
                                      const TemplateStep& step) {
  RecipeStep bound;
  bound.launch = OneThread();
  bound.memset_argument = FindArgument(binder.body(), step.memset_argument);
  bound.memset_value = step.memset_value;
  if (step.memset_bytes.has_value()) {
    HONE_ASSIGN_OR_RETURN(bound.memset_bytes,
                          binder.Bind(path + ".memset.bytes", *step.memset_bytes));
  }
  return bound;
}

absl::StatusOr<RecipeStep> BindKernel(const TemplateBinder& binder, const std::string& path,
                                      const TemplateStep& step) {
  RecipeStep bound;
  HONE_ASSIGN_OR_RETURN(bound.launch, binder.Bind(path + ".launch", step.launch.shape));
  for (const std::string& name : step.arguments) {
    bound.arguments.push_back(FindArgument(binder.body(), name));
  }
  bound.programmatic_dependent_launch = step.programmatic_dependent_launch;
  return bound;
}

// Symbols of the kernel steps, in order: the prebuilt candidate's, or the compiler's.
class Symbols {
 public:
  static absl::StatusOr<Symbols> Create(const KernelTemplate& kernel_template, const Config& config,
                                        const std::string& architecture,
                                        const std::map<std::string, std::string>& lowered_names) {
    Symbols symbols(lowered_names);
    if (kernel_template.spec().prebuilt.empty()) return symbols;
    symbols.prebuilt_ = FindPrebuilt(kernel_template, config, architecture);
    if (symbols.prebuilt_.has_value()) return symbols;
    return absl::FailedPreconditionError(
        absl::StrCat("no prebuilt binary for ", config.ToString(), " on ", architecture));
  }

  // The symbol of the `kernel`-th kernel step.
  absl::StatusOr<std::string> Find(const TemplateBinder& binder, const std::string& path,
                                   const std::string& entry, size_t kernel) const {
    if (prebuilt_.has_value()) return prebuilt_->symbols.at(kernel);
    HONE_ASSIGN_OR_RETURN(const std::string name, binder.Spell(path + ".entry", entry));
    return LoweredName(lowered_names_, name);
  }

 private:
  explicit Symbols(const std::map<std::string, std::string>& lowered_names)
      : lowered_names_(lowered_names) {}

  const std::map<std::string, std::string>& lowered_names_;
  std::optional<PrebuiltCandidate> prebuilt_;
};

absl::Status FillPrebuilt(const KernelTemplate& kernel_template, const Config& config,
                          Program& program) {
  const std::optional<PrebuiltCandidate> candidate =
      FindPrebuilt(kernel_template, config, program.architecture);
  if (!candidate.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no prebuilt binary for ", config.ToString(), " on ", program.architecture));
  }
  const SourceFile* file = kernel_template.FindFile(candidate->file);
  if (file == nullptr) return absl::InternalError("prebuilt file without content");
  program.name = candidate->file;
  program.prebuilt_bytes = file->content;
  program.prebuilt_symbols = candidate->symbols;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> InstantiateProgram(const KernelTemplate& kernel_template,
                                           const Problem& problem, const Config& config,
                                           const std::string& architecture) {
  if (!kernel_template.spec().prebuilt.empty()) {
    Program program;
    program.architecture = architecture;
    HONE_RETURN_IF_ERROR(FillPrebuilt(kernel_template, config, program));
    return program;
  }
  const TemplateBody& body = kernel_template.BodyFor(architecture);
  const TemplateBinder binder(kernel_template, body, problem, config, {});
  HONE_ASSIGN_OR_RETURN(Program program, ProgramFrame(binder, architecture));
  for (size_t i = 0; i < body.steps.size(); ++i) {
    const TemplateStep& step = body.steps[i];
    const std::string path = FieldPath("", "steps", i);
    if (step.entry.empty() || NeverRuns(binder, path, step)) continue;
    HONE_ASSIGN_OR_RETURN(const std::string name, binder.Spell(path + ".entry", step.entry));
    AddEntry(program, name);
  }
  if (program.name_expressions.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no kernel step is left for ", config.ToString(), ": every `when` is false"));
  }
  return program;
}

absl::StatusOr<LaunchRecipe> InstantiateRecipe(
    const KernelTemplate& kernel_template, const Problem& problem, const Config& config,
    const std::string& architecture, const DeviceFacts& facts,
    const std::map<std::string, std::string>& lowered_names) {
  const TemplateBody& body = kernel_template.BodyFor(architecture);
  const TemplateBinder binder(kernel_template, body, problem, config, facts);
  const TemplateBinder without_facts(kernel_template, body, problem, config, {});
  HONE_ASSIGN_OR_RETURN(const Symbols symbols,
                        Symbols::Create(kernel_template, config, architecture, lowered_names));
  HONE_ASSIGN_OR_RETURN(LaunchRecipe recipe, binder.Frame());
  HONE_ASSIGN_OR_RETURN(recipe.guards, binder.Guards());
  size_t kernel = 0;
  for (size_t i = 0; i < body.steps.size(); ++i) {
    const TemplateStep& step = body.steps[i];
    const std::string path = FieldPath("", "steps", i);
    const size_t ordinal = step.entry.empty() ? kernel : kernel++;
    if (NeverRuns(without_facts, path, step)) continue;
    HONE_ASSIGN_OR_RETURN(RecipeStep bound, step.entry.empty() ? BindMemset(binder, path, step)
                                                               : BindKernel(binder, path, step));
    if (!step.entry.empty()) {
      HONE_ASSIGN_OR_RETURN(bound.symbol, symbols.Find(binder, path, step.entry, ordinal));
    }
    if (step.when.has_value()) {
      HONE_ASSIGN_OR_RETURN(const Expression when, binder.Bind(path + ".when", *step.when));
      if (!when.is_constant() || when.constant() == 0) bound.when = when;
    }
    recipe.steps.push_back(std::move(bound));
  }
  return recipe;
}

}  // namespace hone
