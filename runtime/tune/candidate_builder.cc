#include "runtime/tune/candidate_builder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

std::map<std::string, std::string> Themselves(const std::vector<std::string>& names) {
  std::map<std::string, std::string> result;
  for (const std::string& name : names) result[name] = name;
  return result;
}

}  // namespace

CandidateBuilder::CandidateBuilder(Compiler* compiler, KernelTemplatePtr kernel_template,
                                   Problem problem, std::string architecture, DeviceFacts facts,
                                   CompileOptions options)
    : compiler_(compiler),
      template_(std::move(kernel_template)),
      problem_(std::move(problem)),
      architecture_(std::move(architecture)),
      facts_(std::move(facts)),
      options_(options) {}

absl::StatusOr<BuiltCandidate> CandidateBuilder::Build(const Config& config) const {
  BuiltCandidate built{.config = config, .rejection = {}, .artifact = {}, .recipe = {}};
  HONE_ASSIGN_OR_RETURN(const Program program,
                        InstantiateProgram(*template_, problem_, config, architecture_));
  HONE_ASSIGN_OR_RETURN(CompileOutcome outcome, compiler_->Compile(program, options_));
  built.cached = outcome.cached;
  if (outcome.rejection) {
    built.rejection = std::move(outcome.rejection);
    if (built.rejection->log_id.empty()) built.rejection->log_id = outcome.log_id;
    return built;
  }
  built.artifact = std::move(*outcome.artifact);
  HONE_ASSIGN_OR_RETURN(built.recipe, InstantiateRecipe(*template_, problem_, config, architecture_,
                                                        facts_, built.artifact.lowered_names));
  return built;
}

absl::StatusOr<LaunchRecipe> CandidateBuilder::Outline(const Config& config) const {
  HONE_ASSIGN_OR_RETURN(const Program program,
                        InstantiateProgram(*template_, problem_, config, architecture_));
  return InstantiateRecipe(*template_, problem_, config, architecture_, facts_,
                           Themselves(program.name_expressions));
}

std::vector<SizeBindings> CandidateBuilder::CheckSizes(const LaunchRecipe& recipe) const {
  std::vector<SizeBindings> sizes = SmallCheckSizes(*template_, problem_, recipe);
  if (common_size_ && std::find(sizes.begin(), sizes.end(), *common_size_) == sizes.end()) {
    sizes.push_back(*common_size_);
  }
  return sizes;
}

absl::Status CandidateBuilder::AlsoCheckSizeOf(const Config& config) {
  HONE_ASSIGN_OR_RETURN(const LaunchRecipe recipe, Outline(config));
  const std::vector<SizeBindings> sizes = SmallCheckSizes(*template_, problem_, recipe);
  const auto elements = [](const SizeBindings& bindings) {
    double product = 1;
    for (const auto& [name, size] : bindings) product *= static_cast<double>(size);
    return product;
  };
  const auto largest = std::max_element(
      sizes.begin(), sizes.end(),
      [&](const SizeBindings& a, const SizeBindings& b) { return elements(a) < elements(b); });
  common_size_ = largest == sizes.end() ? std::nullopt : std::optional(*largest);
  return absl::OkStatus();
}

absl::Status CandidateBuilder::BuildCheck(CheckPlan* plan,
                                          std::optional<Artifact>* artifact) const {
  HONE_ASSIGN_OR_RETURN(const Program program,
                        InstantiateCheckProgram(*template_, problem_, architecture_));
  std::map<std::string, std::string> lowered_names;
  if (!program.name_expressions.empty()) {
    HONE_ASSIGN_OR_RETURN(CompileOutcome outcome, compiler_->Compile(program, options_));
    if (outcome.rejection) {
      return absl::InvalidArgumentError(
          absl::StrCat("check: the reference of template '", template_->name(),
                       "' does not compile: ", outcome.rejection->detail));
    }
    lowered_names = outcome.artifact->lowered_names;
    *artifact = std::move(*outcome.artifact);
  }
  HONE_ASSIGN_OR_RETURN(
      *plan, InstantiateCheckPlan(*template_, problem_, architecture_, facts_, lowered_names));
  return absl::OkStatus();
}

LaunchArguments OutlineArguments(const LaunchRecipe& recipe, const SizeBindings& sizes,
                                 const DeviceFacts& facts) {
  LaunchArguments arguments;
  arguments.sizes = sizes;
  arguments.sizes.insert(facts.begin(), facts.end());
  uint64_t address = 0;
  for (const RecipeArgument& argument : recipe.arguments) {
    address += uint64_t{1} << 44;  // farther apart than any buffer is long
    if (std::holds_alternative<RecipeBuffer>(argument.kind)) {
      arguments.buffers[argument.name] = {.address = address, .shape = {}, .strides = {}};
    } else if (const auto* scalar = std::get_if<RecipeScalar>(&argument.kind)) {
      if (!scalar->value) arguments.scalars[argument.name] = 0;
    } else if (std::holds_alternative<RecipeScratch>(argument.kind)) {
      arguments.scratch[argument.name] = address;
    }
  }
  return arguments;
}

bool AcceptsEveryInput(const KernelTemplate& kernel_template, const LaunchRecipe& recipe) {
  const std::vector<Expression> declared = DomainGuards(kernel_template);
  for (const Expression& guard : recipe.guards) {
    if (std::find(declared.begin(), declared.end(), guard) == declared.end()) return false;
  }
  for (const RecipeArgument& argument : recipe.arguments) {
    const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind);
    if (buffer != nullptr && buffer->alignment_bytes > SizeBytes(buffer->dtype)) return false;
    // A tensor map wants 16-byte alignment of its base whatever the template declares.
    if (std::holds_alternative<RecipeTensorMap>(argument.kind)) return false;
  }
  return true;
}

}  // namespace hone
