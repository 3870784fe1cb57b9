// Check programs and plans: what checking needs and no config changes.
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/instantiate.h"
#include "runtime/kernel/program_frame.h"
#include "runtime/kernel/template_binder.h"
#include "runtime/kernel/validate_template.h"

namespace hone {
namespace {

// Candidates of one template differ in the order of floating-point sums only. Without a stated
// tolerance, allow what long sums of the type lose; integers must agree exactly.
Tolerance DefaultTolerance(DataType type) {
  Tolerance tolerance;
  switch (type) {
    case DataType::kF64:
      tolerance.atol = tolerance.rtol = 1e-10;
      break;
    case DataType::kF32:
      tolerance.atol = tolerance.rtol = 1e-4;
      break;
    case DataType::kF16:
      tolerance.atol = tolerance.rtol = 1e-2;
      break;
    case DataType::kBF16:
      tolerance.atol = tolerance.rtol = 3e-2;
      break;
    case DataType::kF8E4M3:
      tolerance.atol = tolerance.rtol = 0.13;  // one step of three mantissa bits
      break;
    case DataType::kF8E5M2:
      tolerance.atol = tolerance.rtol = 0.26;
      break;
    default:
      tolerance.exact = true;
      break;
  }
  return tolerance;
}

const TemplateCheck* FindCheck(const TemplateSpec& spec, const std::string& output) {
  for (const TemplateCheck& check : spec.checks) {
    if (check.output == output) return &check;
  }
  return nullptr;
}

Tolerance ToleranceFor(const TemplateCheck& check, DataType type) {
  const auto it = check.by_dtype.find(type);
  return it == check.by_dtype.end() ? check.tolerance : it->second;
}

// The recipe of one trusted kernel over all arguments, in declaration order.
absl::StatusOr<LaunchRecipe> OneStep(const TemplateBinder& binder, const std::string& path,
                                     const std::string& entry, const TemplateLaunch& launch,
                                     const std::string& field,
                                     const std::map<std::string, std::string>& lowered_names) {
  HONE_ASSIGN_OR_RETURN(LaunchRecipe recipe, binder.Frame());
  RecipeStep step;
  HONE_ASSIGN_OR_RETURN(const std::string name, binder.Spell(path + field, entry));
  HONE_ASSIGN_OR_RETURN(step.symbol, LoweredName(lowered_names, name));
  HONE_ASSIGN_OR_RETURN(step.launch, binder.Bind(path + ".launch", launch.shape));
  for (size_t i = 0; i < recipe.arguments.size(); ++i) {
    step.arguments.push_back(static_cast<int>(i));
  }
  recipe.steps.push_back(std::move(step));
  return recipe;
}

absl::StatusOr<BufferInit> BindInit(const TemplateBinder& binder, const std::string& path,
                                    const std::string& name, const TemplateBuffer& buffer,
                                    const std::map<std::string, std::string>& lowered_names) {
  BufferInit init;
  init.argument = name;
  init.kind = buffer.init.value_or(InitKind::kNormal);
  init.skew = buffer.init_skew;
  if (buffer.init_low.has_value()) {
    HONE_ASSIGN_OR_RETURN(init.low, binder.Bind(path + ".init_low", *buffer.init_low));
  }
  if (buffer.init_high.has_value()) {
    HONE_ASSIGN_OR_RETURN(init.high, binder.Bind(path + ".init_high", *buffer.init_high));
  }
  if (init.kind == InitKind::kGenerator) {
    HONE_ASSIGN_OR_RETURN(init.generator,
                          OneStep(binder, path + ".generator", buffer.generator_entry,
                                  buffer.generator_launch, ".entry", lowered_names));
  }
  return init;
}

absl::Status AddInputs(const TemplateBinder& binder,
                       const std::map<std::string, std::string>& lowered_names, CheckPlan& plan) {
  for (size_t i = 0; i < binder.body().arguments.size(); ++i) {
    const TemplateArgument& argument = binder.body().arguments[i];
    const std::string path = FieldPath("", "arguments", i);
    if (binder.IsAbsent(argument.name)) continue;
    if (const auto* scalar = std::get_if<TemplateScalar>(&argument.kind)) {
      if (!scalar->value.has_value()) plan.scalar_samples[argument.name] = scalar->sample;
    }
    const auto* buffer = std::get_if<TemplateBuffer>(&argument.kind);
    if (buffer == nullptr || buffer->access == Access::kWrite) continue;
    HONE_ASSIGN_OR_RETURN(
        BufferInit init, BindInit(binder, path + ".buffer", argument.name, *buffer, lowered_names));
    plan.inits.push_back(std::move(init));
  }
  return absl::OkStatus();
}

absl::Status AddOutputs(const TemplateBinder& binder, CheckPlan& plan) {
  const TemplateSpec& spec = binder.kernel_template().spec();
  for (const TemplateArgument& argument : binder.body().arguments) {
    const auto* buffer = std::get_if<TemplateBuffer>(&argument.kind);
    if (buffer == nullptr || buffer->access == Access::kRead) continue;
    if (binder.IsAbsent(argument.name)) continue;
    HONE_ASSIGN_OR_RETURN(const DataType type, binder.DtypeOf(argument.name, buffer->dtype));
    const TemplateCheck* check = FindCheck(spec, argument.name);
    plan.outputs.push_back({argument.name, check == nullptr || !check->chain.empty()
                                               ? DefaultTolerance(type)
                                               : ToleranceFor(*check, type)});
  }
  return absl::OkStatus();
}

bool SameReference(const TemplateCheck& a, const TemplateCheck& b) {
  return a.reference == b.reference && a.launch.shape.grid == b.launch.shape.grid &&
         a.launch.shape.block == b.launch.shape.block &&
         a.launch.shape.cluster == b.launch.shape.cluster &&
         a.launch.shape.dynamic_shared_bytes == b.launch.shape.dynamic_shared_bytes;
}

// Checks with one reference share one run of it.
absl::Status AddReferences(const TemplateBinder& binder,
                           const std::map<std::string, std::string>& lowered_names,
                           CheckPlan& plan) {
  const std::vector<TemplateCheck>& checks = binder.kernel_template().spec().checks;
  std::vector<const TemplateCheck*> runs;  // parallel to plan.references
  for (size_t i = 0; i < checks.size(); ++i) {
    const TemplateCheck& check = checks[i];
    if (check.reference.empty()) continue;
    size_t run = 0;
    while (run < runs.size() && !SameReference(*runs[run], check)) ++run;
    if (run == runs.size()) {
      ReferenceCheck reference;
      HONE_ASSIGN_OR_RETURN(reference.reference,
                            OneStep(binder, FieldPath("", "check", i), check.reference,
                                    check.launch, ".reference", lowered_names));
      runs.push_back(&check);
      plan.references.push_back(std::move(reference));
    }
    if (binder.IsAbsent(check.output)) continue;
    const TemplateBuffer* buffer = FindBuffer(binder.body(), check.output);
    if (buffer == nullptr) return absl::InternalError("check of no buffer");
    HONE_ASSIGN_OR_RETURN(const DataType type, binder.DtypeOf(check.output, buffer->dtype));
    plan.references[run].outputs.push_back({check.output, ToleranceFor(check, type)});
  }
  return absl::OkStatus();
}

absl::Status AddChains(const TemplateBinder& binder, CheckPlan& plan) {
  for (const TemplateCheck& check : binder.kernel_template().spec().checks) {
    if (check.chain.empty()) continue;
    HONE_ASSIGN_OR_RETURN(const Chain chain, binder.ChainOf(check.chain));
    plan.chains.push_back({check.output, chain.text(), chain.names()});
  }
  return absl::OkStatus();
}

absl::StatusOr<Program> CheckProgram(const TemplateBinder& binder,
                                     const std::string& architecture) {
  const TemplateSpec& spec = binder.kernel_template().spec();
  // A template of binaries alone has no source and nothing to compile.
  Program program;
  program.architecture = architecture;
  if (!binder.body().source.empty()) {
    HONE_ASSIGN_OR_RETURN(program, ProgramFrame(binder, architecture));
  }
  for (size_t i = 0; i < spec.checks.size(); ++i) {
    if (spec.checks[i].reference.empty()) continue;
    HONE_ASSIGN_OR_RETURN(
        const std::string name,
        binder.Spell(FieldPath("", "check", i, ".reference"), spec.checks[i].reference));
    AddEntry(program, name);
  }
  for (size_t i = 0; i < binder.body().arguments.size(); ++i) {
    const auto* buffer = std::get_if<TemplateBuffer>(&binder.body().arguments[i].kind);
    if (buffer == nullptr || buffer->generator_entry.empty()) continue;
    HONE_ASSIGN_OR_RETURN(const std::string name,
                          binder.Spell(FieldPath("", "arguments", i, ".buffer.generator.entry"),
                                       buffer->generator_entry));
    AddEntry(program, name);
  }
  return program;
}

}  // namespace

absl::StatusOr<Program> InstantiateCheckProgram(const KernelTemplate& kernel_template,
                                                const Problem& problem,
                                                const std::string& architecture) {
  const TemplateBody& body = kernel_template.BodyFor(architecture);
  const TemplateBinder binder(kernel_template, body, problem, DefaultTunables(body, architecture),
                              {});
  return CheckProgram(binder, architecture);
}

absl::StatusOr<CheckPlan> InstantiateCheckPlan(
    const KernelTemplate& kernel_template, const Problem& problem, const std::string& architecture,
    const DeviceFacts& facts, const std::map<std::string, std::string>& lowered_names) {
  const TemplateBody& body = kernel_template.BodyFor(architecture);
  const TemplateBinder binder(kernel_template, body, problem, DefaultTunables(body, architecture),
                              facts);
  CheckPlan plan;
  HONE_ASSIGN_OR_RETURN(plan.program,
                        InstantiateCheckProgram(kernel_template, problem, architecture));
  HONE_RETURN_IF_ERROR(AddInputs(binder, lowered_names, plan));
  HONE_RETURN_IF_ERROR(AddReferences(binder, lowered_names, plan));
  HONE_RETURN_IF_ERROR(AddChains(binder, plan));
  HONE_RETURN_IF_ERROR(AddOutputs(binder, plan));
  return plan;
}

}  // namespace hone
