#include "client/cli/reference_kernel.h"

#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/kernel_state.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "runtime/generate/chain_source.h"
#include "runtime/launch/recipe_proto.h"

namespace hone::cli {
namespace {

using ParamMap = google::protobuf::Map<std::string, v1::Value>;

std::string Spelling(const v1::Value& value) {
  if (value.has_integer()) return absl::StrCat(value.integer());
  if (value.has_flag()) return value.flag() ? "true" : "false";
  const std::optional<DataType> type = ParseDataType(value.text());
  return type ? std::string(CudaName(*type)) : value.text();
}

// What the daemon adds to a program of the template for its chains: a header for each.
absl::Status AddChainHeaders(const v1::KernelTemplate& kernel_template, const ParamMap& params,
                             v1::CompileRequest& request) {
  for (const v1::Parameter& parameter : kernel_template.params()) {
    const auto value = params.find(parameter.name());
    if (!parameter.has_chain() || value == params.end()) continue;
    const auto& inputs = parameter.chain().inputs();
    const auto& scalars = parameter.chain().scalars();
    HONE_ASSIGN_OR_RETURN(const Chain chain,
                          Chain::Parse(value->second.text(), {{inputs.begin(), inputs.end()},
                                                              {scalars.begin(), scalars.end()}}));
    v1::SourceFile& header = *request.add_headers();
    header.set_name(ChainHeaderName(parameter.name()));
    header.set_content(ChainSource(chain, parameter.name()));
  }
  return absl::OkStatus();
}

// A chain is spelled as the type in its header.
ParamMap WithChainTypes(const v1::KernelTemplate& kernel_template, ParamMap params) {
  for (const v1::Parameter& parameter : kernel_template.params()) {
    const auto value = params.find(parameter.name());
    if (!parameter.has_chain() || value == params.end()) continue;
    value->second.set_text(ChainTypeName(parameter.name()));
  }
  return params;
}

// The variant that replaces parts of the template on an architecture; nullptr if there is none.
const v1::ArchitectureVariant* VariantFor(const v1::KernelTemplate& kernel_template,
                                          const std::string& architecture) {
  for (const v1::ArchitectureVariant& variant : kernel_template.variants()) {
    for (const std::string& pattern : variant.architectures()) {
      if (CoversArchitecture(pattern, architecture)) return &variant;
    }
  }
  return nullptr;
}

absl::StatusOr<Expression> Bound(const std::string& text, const ExpressionBindings& bindings,
                                 int64_t empty_value) {
  if (text.empty()) return Expression::Constant(empty_value);
  HONE_ASSIGN_OR_RETURN(const Expression parsed, Expression::Parse(text));
  return parsed.Bind(bindings);
}

absl::StatusOr<LaunchShape> BindLaunch(const v1::Launch& launch,
                                       const ExpressionBindings& bindings) {
  LaunchShape shape;
  HONE_ASSIGN_OR_RETURN(shape.grid[0], Bound(launch.grid_x(), bindings, 1));
  HONE_ASSIGN_OR_RETURN(shape.grid[1], Bound(launch.grid_y(), bindings, 1));
  HONE_ASSIGN_OR_RETURN(shape.grid[2], Bound(launch.grid_z(), bindings, 1));
  HONE_ASSIGN_OR_RETURN(shape.block[0], Bound(launch.block_x(), bindings, 1));
  HONE_ASSIGN_OR_RETURN(shape.block[1], Bound(launch.block_y(), bindings, 1));
  HONE_ASSIGN_OR_RETURN(shape.block[2], Bound(launch.block_z(), bindings, 1));
  HONE_ASSIGN_OR_RETURN(shape.dynamic_shared_bytes,
                        Bound(launch.dynamic_shared_bytes(), bindings, 0));
  return shape;
}

// The served arguments, without what only the served binary needs of them.
LaunchRecipe ReferenceRecipe(const LaunchRecipe& served, const std::string& symbol,
                             const LaunchShape& shape) {
  LaunchRecipe recipe;
  recipe.dynamic_sizes = served.dynamic_sizes;
  recipe.arguments = served.arguments;
  RecipeStep step;
  step.symbol = symbol;
  step.launch = shape;
  for (size_t i = 0; i < recipe.arguments.size(); ++i) {
    if (auto* buffer = std::get_if<RecipeBuffer>(&recipe.arguments[i].kind)) {
      buffer->alignment_bytes = SizeBytes(buffer->dtype);
    }
    step.arguments.push_back(static_cast<int>(i));
  }
  recipe.steps = {step};
  return recipe;
}

ExpressionBindings SpecialisedBindings(const Kernel& served) {
  ExpressionBindings bindings = BindingsOf(served.response().kernel().params());
  for (const std::string& name : served.dynamic_sizes()) bindings.erase(name);
  return bindings;
}

}  // namespace

bool CoversArchitecture(const std::string& pattern, const std::string& architecture) {
  if (pattern == architecture) return true;
  return architecture.size() == pattern.size() + 1 && absl::StartsWith(architecture, pattern) &&
         (absl::EndsWith(architecture, "a") || absl::EndsWith(architecture, "f"));
}

absl::StatusOr<std::string> Substitute(const std::string& text, const ParamMap& params) {
  std::string result;
  size_t at = 0;
  while (true) {
    const size_t begin = text.find("${", at);
    result.append(text, at, begin - at);
    if (begin == std::string::npos) return result;
    const size_t end = text.find('}', begin);
    if (end == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "': '${' without '}'"));
    }
    const std::string name = text.substr(begin + 2, end - begin - 2);
    const auto found = params.find(name);
    if (found == params.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "': ", name, " is no parameter of this problem"));
    }
    result += Spelling(found->second);
    at = end + 1;
  }
}

ExpressionBindings BindingsOf(const ParamMap& params) {
  ExpressionBindings bindings;
  for (const auto& [name, value] : params) {
    if (value.has_integer()) {
      bindings[name] = value.integer();
    } else if (value.has_flag()) {
      bindings[name] = value.flag() ? 1 : 0;
    } else if (const std::optional<DataType> type = ParseDataType(value.text())) {
      bindings[name] = *type;
    } else {
      bindings[name] = value.text();
    }
  }
  return bindings;
}

// Compile has no definitions; they stand before the source as the daemon places them.
absl::StatusOr<v1::CompileRequest> TemplateCompile(const v1::KernelTemplate& kernel_template,
                                                   const ParamMap& params,
                                                   const std::vector<std::string>& entries,
                                                   const std::string& architecture) {
  v1::CompileRequest request;
  HONE_RETURN_IF_ERROR(AddChainHeaders(kernel_template, params, request));
  const ParamMap spellings = WithChainTypes(kernel_template, params);
  std::string source;
  for (const v1::Define& define : kernel_template.defines()) {
    HONE_ASSIGN_OR_RETURN(const std::string value, Substitute(define.value(), spellings));
    absl::StrAppend(&source, "#define ", define.name(), " ", value, "\n");
  }
  const v1::ArchitectureVariant* variant = VariantFor(kernel_template, architecture);
  const bool own_source = variant != nullptr && !variant->source().empty();
  const std::string& name = own_source ? variant->source() : kernel_template.source();
  const std::set<std::string> headers(kernel_template.headers().begin(),
                                      kernel_template.headers().end());
  for (const v1::SourceFile& file : kernel_template.files()) {
    if (file.name() == name) {
      absl::StrAppend(&source, "#line 1 \"", name, "\"\n", file.content());
    } else if (headers.count(file.name()) > 0) {
      *request.add_headers() = file;
    }
  }
  request.set_source(std::move(source));
  request.set_name(name);
  *request.mutable_header_sets() = kernel_template.header_sets();
  const bool own_options = variant != nullptr && variant->options_size() > 0;
  *request.mutable_options() = own_options ? variant->options() : kernel_template.options();
  for (const std::string& entry : entries) request.add_name_expressions(entry);
  request.add_architectures(architecture);
  return request;
}

absl::StatusOr<ReferenceKernel> CompileReference(const Client& client,
                                                 const v1::KernelTemplate& kernel_template,
                                                 int index, const Kernel& served,
                                                 bool cpu_device_enabled) {
  const v1::TunedKernel& kernel = served.response().kernel();
  // A check without reference uses the one before it.
  int from = index;
  while (from > 0 && kernel_template.check(from).reference().empty()) --from;
  const v1::Check& check = kernel_template.check(from);
  HONE_ASSIGN_OR_RETURN(
      const std::string entry,
      Substitute(check.reference(), WithChainTypes(kernel_template, kernel.params())));
  HONE_ASSIGN_OR_RETURN(
      const v1::CompileRequest request,
      TemplateCompile(kernel_template, kernel.params(), {entry}, kernel.architecture()));
  HONE_ASSIGN_OR_RETURN(const v1::CompileResponse compiled, client.Compile(request));
  if (compiled.artifacts_size() != 1) {
    return absl::InternalError(absl::StrCat("the daemon sent ", compiled.artifacts_size(),
                                            " artifacts for one architecture"));
  }
  const v1::CompiledArtifact& artifact = compiled.artifacts(0);
  const auto symbol = artifact.info().lowered_names().find(entry);
  if (symbol == artifact.info().lowered_names().end()) {
    return absl::InternalError(absl::StrCat("the reference's artifact has no ", entry));
  }
  std::string bytes = artifact.data();
  if (bytes.empty()) {
    HONE_ASSIGN_OR_RETURN(FetchedArtifact fetched, client.GetArtifact(artifact.info().sha256()));
    bytes = std::move(fetched.bytes);
  }
  if (Sha256Hex(bytes) != artifact.info().sha256()) {
    return absl::DataLossError("the reference's bytes do not match their hash");
  }
  HONE_ASSIGN_OR_RETURN(const LaunchShape shape,
                        BindLaunch(check.launch(), SpecialisedBindings(served)));
  v1::GetKernelResponse response;
  response.mutable_kernel()->set_architecture(kernel.architecture());
  v1::KernelVariant* variant = response.mutable_kernel()->add_variants();
  *variant->mutable_artifact() = artifact.info();
  variant->set_config("reference");
  *variant->mutable_recipe() =
      ToProto(ReferenceRecipe(served.variants().front().recipe, symbol->second, shape));
  HONE_ASSIGN_OR_RETURN(
      Kernel reference,
      MakeKernel(std::move(response), {{artifact.info().sha256(), bytes}}, cpu_device_enabled));
  return ReferenceKernel{.entry = entry, .kernel = std::move(reference)};
}

}  // namespace hone::cli
