// Binds a template's parts to one problem and config: expressions keep only dynamic sizes and
// device facts that are not given.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/problem.h"
#include "runtime/launch/launch_recipe.h"

namespace hone {

// Errors are INVALID_ARGUMENT or OUT_OF_RANGE led by the field's path in the template. The template
// and body must outlive this object.
class TemplateBinder {
 public:
  TemplateBinder(const KernelTemplate& kernel_template, const TemplateBody& body,
                 const Problem& problem, const Config& config, const DeviceFacts& facts);

  absl::StatusOr<Expression> Bind(absl::string_view path, const Expression& expression) const;
  absl::StatusOr<LaunchShape> Bind(absl::string_view path, const LaunchShape& launch) const;
  // The C++ spelling of an entry or define.
  absl::StatusOr<std::string> Spell(absl::string_view path, const std::string& text) const;
  absl::StatusOr<std::vector<RecipeArgument>> Arguments() const;
  absl::StatusOr<DataType> DtypeOf(absl::string_view path, const std::string& dtype) const;
  // Dynamic sizes in declaration order.
  std::vector<std::string> DynamicSizes() const;
  // A constraint, constant if it is true or false whatever the sizes: `cols % VEC == 0` is for
  // VEC=1.
  absl::StatusOr<Expression> BindConstraint(absl::string_view path,
                                            const Expression& constraint) const;
  // Over dynamic sizes: DomainGuards, then the constraints that mention them. A constraint that is
  // false whatever the sizes is FAILED_PRECONDITION.
  absl::StatusOr<std::vector<Expression>> Guards() const;
  // Recipe with everything but steps.
  absl::StatusOr<LaunchRecipe> Frame() const;

  const KernelTemplate& kernel_template() const { return template_; }
  const TemplateBody& body() const { return body_; }
  // One that the problem's chains do not read, or an optional buffer with an extent that is 0
  // whatever the dynamic sizes: callers do not give it, kernels get 0 for it.
  bool IsAbsent(const std::string& argument) const { return absent_.count(argument) > 0; }
  // The headers generated for the problem's chains.
  absl::StatusOr<std::vector<SourceFile>> ChainHeaders() const;
  // The problem's chain for a chain parameter.
  absl::StatusOr<Chain> ChainOf(const std::string& parameter) const;

 private:
  absl::StatusOr<std::vector<Expression>> BindAll(absl::string_view path,
                                                  const std::vector<Expression>& expressions) const;
  void KeepAliasesOfEqualExtent(std::vector<RecipeArgument>& arguments) const;
  absl::StatusOr<RecipeBuffer> BindBuffer(const std::string& path,
                                          const TemplateBuffer& buffer) const;
  absl::StatusOr<int64_t> Alignment(const std::string& path, const TemplateBuffer& buffer,
                                    DataType dtype) const;
  absl::StatusOr<RecipeScalar> BindScalar(const std::string& path,
                                          const TemplateScalar& scalar) const;
  absl::StatusOr<RecipeTensorMap> BindTensorMap(const std::string& path,
                                                const TemplateTensorMap& tensor_map) const;

  const KernelTemplate& template_;
  const TemplateBody& body_;
  ExpressionBindings bindings_;
  std::map<std::string, std::string> spellings_;
  std::set<std::string> absent_;
  std::set<std::string> chain_inputs_;
};

// The architecture's tunables at their defaults: what references and generators, which are the same
// for every config, see where an argument depends on a tunable.
Config DefaultTunables(const TemplateBody& body, const std::string& architecture);

}  // namespace hone
