#include "runtime/kernel/template_binder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/generate/chain_source.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/instantiate.h"
#include "runtime/kernel/problem_chains.h"
#include "runtime/kernel/template_bindings.h"
#include "runtime/kernel/template_text.h"
#include "runtime/kernel/validate_template.h"

namespace hone {
namespace {

using Op = Expression::Op;

std::string SpellingOf(const Parameter& parameter, const Value& value) {
  if (parameter.kind == ParameterKind::kFlag) {
    return std::get<int64_t>(value) != 0 ? "true" : "false";
  }
  if (parameter.kind == ParameterKind::kChain) return ChainTypeName(parameter.name);
  if (const auto* type = std::get_if<DataType>(&value)) return std::string(CudaName(*type));
  return ToString(value);
}

// REQUIRES: `op` takes two operands.
Expression Binary(Op op, Expression left, int64_t right) {
  return Expression::Make(op, {std::move(left), Expression::Constant(right)}).value();
}

// Everything is a multiple of 1: `x % 1` is 0, so that a constraint which asks no more needs no
// guard.
absl::StatusOr<Expression> WithoutTrivialRemainders(const Expression& expression) {
  if (expression.op() == Op::kConst || expression.op() == Op::kVar) return expression;
  std::vector<Expression> operands;
  for (const Expression& operand : expression.operands()) {
    HONE_ASSIGN_OR_RETURN(Expression simple, WithoutTrivialRemainders(operand));
    operands.push_back(std::move(simple));
  }
  if (expression.op() == Op::kMod && operands[1].is_constant() && operands[1].constant() == 1) {
    return Expression::Constant(0);
  }
  return Expression::Make(expression.op(), std::move(operands));
}

// What a kernel gets for an argument that the problem does without: a null pointer, or 0.
RecipeScalar ZeroInPlaceOf(const TemplateArgument& argument) {
  const auto* scalar = std::get_if<TemplateScalar>(&argument.kind);
  return {.type = scalar == nullptr ? DataType::kU64 : scalar->type,
          .value = Expression::Constant(0)};
}

// An extent is 0 whatever the dynamic sizes.
bool NeverHasElements(const TemplateBuffer& buffer, const ExpressionBindings& bindings) {
  return std::any_of(buffer.shape.begin(), buffer.shape.end(), [&](const Expression& extent) {
    const absl::StatusOr<Expression> bound = extent.Bind(bindings);
    return bound.ok() && bound->is_constant() && bound->constant() == 0;
  });
}

// A row vector is [cols] to its callers, not [1, cols].
void DropLeadingOnes(RecipeBuffer& buffer) {
  const auto is_one = [](const Expression& extent) {
    return extent.is_constant() && extent.constant() == 1;
  };
  while (buffer.shape.size() > 1 && is_one(buffer.shape.front())) {
    buffer.shape.erase(buffer.shape.begin());
    buffer.strides.erase(buffer.strides.begin());
  }
}

// Dense row-major strides of a shape, in elements.
absl::StatusOr<std::vector<Expression>> DenseStrides(const std::vector<Expression>& shape) {
  std::vector<Expression> strides(shape.size(), Expression::Constant(1));
  for (size_t i = shape.size(); i-- > 1;) {
    HONE_ASSIGN_OR_RETURN(Expression product, Expression::Make(Op::kMul, {strides[i], shape[i]}));
    HONE_ASSIGN_OR_RETURN(strides[i - 1], product.Bind(ExpressionBindings()));
  }
  return strides;
}

}  // namespace

std::vector<Expression> DomainGuards(const KernelTemplate& kernel_template) {
  std::vector<Expression> guards;
  for (const Parameter& parameter : kernel_template.spec().params) {
    if (parameter.kind != ParameterKind::kSize || !parameter.dynamic) continue;
    const Expression size = Expression::Variable(parameter.name);
    if (parameter.min > 1) guards.push_back(Binary(Op::kGe, size, parameter.min));
    if (parameter.max < Parameter().max) guards.push_back(Binary(Op::kLe, size, parameter.max));
    if (parameter.multiple_of > 1) {
      guards.push_back(Binary(Op::kEq, Binary(Op::kMod, size, parameter.multiple_of), 0));
    }
  }
  return guards;
}

Config DefaultTunables(const TemplateBody& body, const std::string& architecture) {
  std::vector<std::pair<std::string, int64_t>> values;
  for (const Tunable& tunable : TunablesFor(body, architecture)) {
    values.emplace_back(tunable.name, tunable.default_value);
  }
  return Config(std::move(values));
}

TemplateBinder::TemplateBinder(const KernelTemplate& kernel_template, const TemplateBody& body,
                               const Problem& problem, const Config& config,
                               const DeviceFacts& facts)
    : template_(kernel_template),
      body_(body),
      bindings_(BindingsFor(kernel_template, problem.specialised())),
      absent_(AbsentArguments(kernel_template, problem.specialised())) {
  AddTo(bindings_, config);
  AddTo(bindings_, facts);
  for (const auto& [name, value] : problem.specialised()) {
    const Parameter* parameter = kernel_template.FindParameter(name);
    if (parameter != nullptr) spellings_[name] = SpellingOf(*parameter, value);
  }
  for (const Parameter& parameter : kernel_template.spec().params) {
    const std::vector<std::string>& inputs = parameter.chain_names.inputs;
    chain_inputs_.insert(inputs.begin(), inputs.end());
  }
  for (const auto& [name, value] : config.values()) spellings_[name] = absl::StrCat(value);
  for (const TemplateArgument& argument : body.arguments) {
    const auto* buffer = std::get_if<TemplateBuffer>(&argument.kind);
    if (buffer != nullptr && buffer->optional && NeverHasElements(*buffer, bindings_)) {
      absent_.insert(argument.name);
    }
  }
}

absl::StatusOr<Expression> TemplateBinder::Bind(absl::string_view path,
                                                const Expression& expression) const {
  absl::StatusOr<Expression> bound = expression.Bind(bindings_);
  if (bound.ok()) return bound;
  return AtField(
      path, absl::Status(bound.status().code(), absl::StrCat("\"", expression.ToString(),
                                                             "\": ", bound.status().message())));
}

absl::StatusOr<LaunchShape> TemplateBinder::Bind(absl::string_view path,
                                                 const LaunchShape& launch) const {
  constexpr char kAxes[] = "xyz";
  LaunchShape bound;
  const auto bind = [&](absl::string_view what, const std::array<Expression, 3>& from,
                        std::array<Expression, 3>& to) {
    for (size_t axis = 0; axis < 3; ++axis) {
      HONE_ASSIGN_OR_RETURN(
          to[axis],
          Bind(absl::StrCat(path, ".", what, "_", std::string(1, kAxes[axis])), from[axis]));
    }
    return absl::OkStatus();
  };
  HONE_RETURN_IF_ERROR(bind("grid", launch.grid, bound.grid));
  HONE_RETURN_IF_ERROR(bind("block", launch.block, bound.block));
  HONE_RETURN_IF_ERROR(bind("cluster", launch.cluster, bound.cluster));
  HONE_ASSIGN_OR_RETURN(
      bound.dynamic_shared_bytes,
      Bind(absl::StrCat(path, ".dynamic_shared_bytes"), launch.dynamic_shared_bytes));
  return bound;
}

absl::StatusOr<std::string> TemplateBinder::Spell(absl::string_view path,
                                                  const std::string& text) const {
  absl::StatusOr<std::string> spelled = Substitute(text, spellings_);
  if (!spelled.ok()) return AtField(path, spelled.status());
  return spelled;
}

absl::StatusOr<DataType> TemplateBinder::DtypeOf(absl::string_view path,
                                                 const std::string& dtype) const {
  if (const auto it = bindings_.find(dtype); it != bindings_.end()) {
    if (const auto* type = std::get_if<DataType>(&it->second)) return *type;
  }
  if (const auto type = ParseDataType(dtype)) return *type;
  return FieldError(path, absl::StrCat("\"", dtype, "\" is not a data type"));
}

absl::StatusOr<std::vector<Expression>> TemplateBinder::BindAll(
    absl::string_view path, const std::vector<Expression>& expressions) const {
  std::vector<Expression> bound;
  for (size_t i = 0; i < expressions.size(); ++i) {
    HONE_ASSIGN_OR_RETURN(Expression one, Bind(FieldPath("", path, i), expressions[i]));
    bound.push_back(std::move(one));
  }
  return bound;
}

absl::StatusOr<int64_t> TemplateBinder::Alignment(const std::string& path,
                                                  const TemplateBuffer& buffer,
                                                  DataType dtype) const {
  if (!buffer.alignment_bytes.has_value()) return SizeBytes(dtype);
  HONE_ASSIGN_OR_RETURN(const Expression bound,
                        Bind(path + ".alignment_bytes", *buffer.alignment_bytes));
  if (!bound.is_constant()) {
    return FieldError(path + ".alignment_bytes",
                      absl::StrCat("\"", bound.ToString(), "\" is not known before the launch"));
  }
  if (bound.constant() < 1) {
    return FieldError(path + ".alignment_bytes",
                      absl::StrCat(bound.constant(), "; expected at least 1"));
  }
  return bound.constant();
}

absl::StatusOr<RecipeBuffer> TemplateBinder::BindBuffer(const std::string& path,
                                                        const TemplateBuffer& buffer) const {
  RecipeBuffer bound;
  HONE_ASSIGN_OR_RETURN(bound.dtype, DtypeOf(path + ".dtype", buffer.dtype));
  HONE_ASSIGN_OR_RETURN(bound.shape, BindAll(path + ".shape", buffer.shape));
  if (buffer.strides.empty()) {
    HONE_ASSIGN_OR_RETURN(bound.strides, DenseStrides(bound.shape));
  } else {
    HONE_ASSIGN_OR_RETURN(bound.strides, BindAll(path + ".strides", buffer.strides));
  }
  bound.access = buffer.access;
  HONE_ASSIGN_OR_RETURN(bound.alignment_bytes, Alignment(path, buffer, bound.dtype));
  for (const std::string& other : buffer.may_alias) {
    if (!IsAbsent(other)) bound.may_alias.push_back(other);
  }
  bound.optional = buffer.optional;
  return bound;
}

absl::StatusOr<RecipeScalar> TemplateBinder::BindScalar(const std::string& path,
                                                        const TemplateScalar& scalar) const {
  RecipeScalar bound;
  bound.type = scalar.type;
  if (scalar.value.has_value()) {
    HONE_ASSIGN_OR_RETURN(bound.value, Bind(path + ".value", *scalar.value));
  }
  return bound;
}

absl::StatusOr<RecipeTensorMap> TemplateBinder::BindTensorMap(
    const std::string& path, const TemplateTensorMap& tensor_map) const {
  RecipeTensorMap bound = tensor_map.map;
  const TemplateBuffer* buffer = FindBuffer(body_, bound.buffer);
  if (buffer == nullptr) return absl::InternalError("tensor map over no buffer");
  HONE_ASSIGN_OR_RETURN(bound.dtype, DtypeOf(path + ".buffer", buffer->dtype));
  HONE_ASSIGN_OR_RETURN(bound.dims, BindAll(path + ".dims", tensor_map.map.dims));
  HONE_ASSIGN_OR_RETURN(bound.strides_bytes,
                        BindAll(path + ".strides_bytes", tensor_map.map.strides_bytes));
  HONE_ASSIGN_OR_RETURN(bound.box, BindAll(path + ".box", tensor_map.map.box));
  HONE_ASSIGN_OR_RETURN(bound.element_strides,
                        BindAll(path + ".element_strides", tensor_map.map.element_strides));
  if (bound.element_strides.empty()) {
    bound.element_strides.assign(bound.dims.size(), Expression::Constant(1));
  }
  return bound;
}

// In place, a chain's output is written where the same element was read: not where an input is
// repeated or has elements of another size.
void TemplateBinder::KeepAliasesOfEqualExtent(std::vector<RecipeArgument>& arguments) const {
  for (RecipeArgument& argument : arguments) {
    auto* buffer = std::get_if<RecipeBuffer>(&argument.kind);
    if (buffer == nullptr) continue;
    const auto differs = [&](const std::string& other) {
      if (chain_inputs_.count(other) == 0) return false;
      const auto found = std::find_if(arguments.begin(), arguments.end(),
                                      [&](const RecipeArgument& one) { return one.name == other; });
      const auto* input =
          found == arguments.end() ? nullptr : std::get_if<RecipeBuffer>(&found->kind);
      return input == nullptr || input->shape != buffer->shape ||
             input->strides != buffer->strides ||
             SizeBytes(input->dtype) != SizeBytes(buffer->dtype);
    };
    std::erase_if(buffer->may_alias, differs);
  }
}

absl::StatusOr<std::vector<RecipeArgument>> TemplateBinder::Arguments() const {
  std::vector<RecipeArgument> arguments;
  for (size_t i = 0; i < body_.arguments.size(); ++i) {
    const TemplateArgument& argument = body_.arguments[i];
    const std::string path = FieldPath("", "arguments", i);
    RecipeArgument bound;
    bound.name = argument.name;
    if (IsAbsent(argument.name)) {
      bound.kind = ZeroInPlaceOf(argument);
    } else if (const auto* buffer = std::get_if<TemplateBuffer>(&argument.kind)) {
      HONE_ASSIGN_OR_RETURN(RecipeBuffer whole, BindBuffer(path + ".buffer", *buffer));
      if (chain_inputs_.count(argument.name) > 0) DropLeadingOnes(whole);
      bound.kind = std::move(whole);
    } else if (const auto* scalar = std::get_if<TemplateScalar>(&argument.kind)) {
      HONE_ASSIGN_OR_RETURN(bound.kind, BindScalar(path + ".scalar", *scalar));
    } else if (const auto* map = std::get_if<TemplateTensorMap>(&argument.kind)) {
      HONE_ASSIGN_OR_RETURN(bound.kind, BindTensorMap(path + ".tensor_map", *map));
    } else {
      const auto& scratch = std::get<TemplateScratch>(argument.kind);
      HONE_ASSIGN_OR_RETURN(const Expression bytes, Bind(path + ".scratch.bytes", scratch.bytes));
      bound.kind = RecipeScratch{bytes, scratch.zeroed};
    }
    arguments.push_back(std::move(bound));
  }
  KeepAliasesOfEqualExtent(arguments);
  return arguments;
}

absl::StatusOr<Chain> TemplateBinder::ChainOf(const std::string& parameter) const {
  const Parameter* declared = template_.FindParameter(parameter);
  const auto value = bindings_.find(parameter);
  if (declared == nullptr || value == bindings_.end()) {
    return absl::InternalError(absl::StrCat("no value for the chain ", parameter));
  }
  return ReadChain(*declared, value->second);
}

absl::StatusOr<std::vector<SourceFile>> TemplateBinder::ChainHeaders() const {
  std::vector<SourceFile> headers;
  for (const Parameter& parameter : template_.spec().params) {
    if (parameter.kind != ParameterKind::kChain) continue;
    HONE_ASSIGN_OR_RETURN(const Chain chain, ChainOf(parameter.name));
    headers.push_back({ChainHeaderName(parameter.name), ChainSource(chain, parameter.name)});
  }
  return headers;
}

std::vector<std::string> TemplateBinder::DynamicSizes() const {
  std::vector<std::string> names;
  for (const Parameter& parameter : template_.spec().params) {
    if (parameter.kind == ParameterKind::kSize && parameter.dynamic) {
      names.push_back(parameter.name);
    }
  }
  return names;
}

absl::StatusOr<Expression> TemplateBinder::BindConstraint(absl::string_view path,
                                                          const Expression& constraint) const {
  HONE_ASSIGN_OR_RETURN(const Expression bound, Bind(path, constraint));
  HONE_ASSIGN_OR_RETURN(const Expression simple, WithoutTrivialRemainders(bound));
  return simple.Bind(ExpressionBindings());
}

absl::StatusOr<std::vector<Expression>> TemplateBinder::Guards() const {
  std::vector<Expression> guards = DomainGuards(template_);
  for (size_t i = 0; i < body_.constraints.size(); ++i) {
    const Expression& constraint = body_.constraints[i];
    HONE_ASSIGN_OR_RETURN(Expression bound,
                          BindConstraint(FieldPath("", "constraints", i), constraint));
    if (!bound.is_constant()) {
      guards.push_back(std::move(bound));
    } else if (bound.constant() == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("constraint \"", constraint.ToString(), "\" does not hold"));
    }
  }
  return guards;
}

absl::StatusOr<LaunchRecipe> TemplateBinder::Frame() const {
  LaunchRecipe recipe;
  recipe.dynamic_sizes = DynamicSizes();
  HONE_ASSIGN_OR_RETURN(recipe.arguments, Arguments());
  HONE_ASSIGN_OR_RETURN(recipe.work_bytes, Bind("work.bytes", template_.spec().work_bytes));
  HONE_ASSIGN_OR_RETURN(recipe.work_flops, Bind("work.flops", template_.spec().work_flops));
  if (const auto& traffic = template_.spec().work_traffic_bytes) {
    HONE_ASSIGN_OR_RETURN(recipe.work_traffic_bytes, Bind("work.traffic_bytes", *traffic));
  }
  return recipe;
}

}  // namespace hone
