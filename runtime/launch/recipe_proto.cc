#include "runtime/launch/recipe_proto.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/operators.h"

namespace hone {
namespace {

using google::protobuf::RepeatedPtrField;

// No CUDA kernel takes more than 4 KiB (32 KiB since 12.1) of parameters, so lists beyond these are
// not recipes.
constexpr int kArgumentsMax = 1024;
constexpr int kStepsMax = 1024;
constexpr int kRankMax = 64;
constexpr int kGuardsMax = 1024;
constexpr int kOperandsMax = 256;
// All expressions of one recipe together.
constexpr int kNodesMax = 100'000;

void ToProtoList(const std::vector<Expression>& list, RepeatedPtrField<v1::Expression>* proto) {
  for (const Expression& e : list) *proto->Add() = ToProto(e);
}

void ToProtoAxes(const std::array<Expression, 3>& axes, RepeatedPtrField<v1::Expression>* proto) {
  for (const Expression& e : axes) *proto->Add() = ToProto(e);
}

v1::RecipeBuffer ToProto(const RecipeBuffer& buffer) {
  v1::RecipeBuffer proto;
  proto.set_dtype(static_cast<v1::DataType>(buffer.dtype));
  ToProtoList(buffer.shape, proto.mutable_shape());
  ToProtoList(buffer.strides, proto.mutable_strides());
  proto.set_access(buffer.access == Access::kRead    ? v1::Buffer::READ
                   : buffer.access == Access::kWrite ? v1::Buffer::WRITE
                                                     : v1::Buffer::READ_WRITE);
  proto.set_alignment_bytes(buffer.alignment_bytes);
  for (const std::string& name : buffer.may_alias) proto.add_may_alias(name);
  proto.set_optional(buffer.optional);
  return proto;
}

v1::RecipeScalar ToProto(const RecipeScalar& scalar) {
  v1::RecipeScalar proto;
  proto.set_type(static_cast<v1::DataType>(scalar.type));
  if (scalar.value) *proto.mutable_value() = ToProto(*scalar.value);
  return proto;
}

v1::RecipeTensorMap ToProto(const RecipeTensorMap& map) {
  v1::RecipeTensorMap proto;
  proto.set_buffer(map.buffer);
  proto.set_dtype(static_cast<v1::DataType>(map.dtype));
  ToProtoList(map.dims, proto.mutable_dims());
  ToProtoList(map.strides_bytes, proto.mutable_strides_bytes());
  ToProtoList(map.box, proto.mutable_box());
  ToProtoList(map.element_strides, proto.mutable_element_strides());
  proto.set_swizzle(static_cast<v1::TensorMap::Swizzle>(map.swizzle));
  proto.set_interleave(static_cast<v1::TensorMap::Interleave>(map.interleave));
  proto.set_l2_promotion(static_cast<v1::TensorMap::L2Promotion>(map.l2_promotion));
  proto.set_fill(map.fill_nan ? v1::TensorMap::FILL_NAN : v1::TensorMap::FILL_ZERO);
  return proto;
}

v1::RecipeScratch ToProto(const RecipeScratch& scratch) {
  v1::RecipeScratch proto;
  *proto.mutable_bytes() = ToProto(scratch.bytes);
  proto.set_zeroed(static_cast<v1::Scratch::Zeroed>(scratch.zeroed));
  return proto;
}

v1::RecipeArgument ToProto(const RecipeArgument& argument) {
  v1::RecipeArgument proto;
  proto.set_name(argument.name);
  if (const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind)) {
    *proto.mutable_buffer() = ToProto(*buffer);
  } else if (const auto* scalar = std::get_if<RecipeScalar>(&argument.kind)) {
    *proto.mutable_scalar() = ToProto(*scalar);
  } else if (const auto* map = std::get_if<RecipeTensorMap>(&argument.kind)) {
    *proto.mutable_tensor_map() = ToProto(*map);
  } else if (const auto* scratch = std::get_if<RecipeScratch>(&argument.kind)) {
    *proto.mutable_scratch() = ToProto(*scratch);
  }
  return proto;
}

v1::RecipeStep ToProto(const RecipeStep& step) {
  v1::RecipeStep proto;
  if (step.when) *proto.mutable_when() = ToProto(*step.when);
  if (step.symbol.empty()) {
    proto.set_memset_argument(step.memset_argument);
    proto.set_memset_value(step.memset_value);
    if (step.memset_bytes) *proto.mutable_memset_bytes() = ToProto(*step.memset_bytes);
    return proto;
  }
  proto.set_symbol(step.symbol);
  ToProtoAxes(step.launch.grid, proto.mutable_grid());
  ToProtoAxes(step.launch.block, proto.mutable_block());
  ToProtoAxes(step.launch.cluster, proto.mutable_cluster());
  *proto.mutable_dynamic_shared_bytes() = ToProto(step.launch.dynamic_shared_bytes);
  for (const int index : step.arguments) proto.add_arguments(index);
  proto.set_programmatic_dependent_launch(step.programmatic_dependent_launch);
  return proto;
}

absl::Status Wrong(absl::string_view field, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", message));
}

absl::Status CheckCount(absl::string_view field, int count, int max) {
  if (count <= max) return absl::OkStatus();
  return Wrong(field, absl::StrCat(count, " entries, at most ", max, " are allowed"));
}

// Reads one message, counting the expressions it makes.
class Reader {
 public:
  absl::StatusOr<Expression> Read(const v1::Expression& proto, int depth = 1) {
    if (depth > kExpressionDepthMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("nested more than ", kExpressionDepthMax, " levels deep"));
    }
    if (++nodes_ > kNodesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kNodesMax, " expression nodes in one recipe"));
    }
    if (proto.op() == "const") return Expression::Constant(proto.constant());
    if (proto.op() == "var") {
      if (proto.variable().empty()) return absl::InvalidArgumentError("a variable without name");
      return Expression::Variable(proto.variable());
    }
    const OperatorFacts* facts = FindOperator(proto.op());
    if (facts == nullptr || facts->op == Expression::Op::kSizeOf ||
        facts->op == Expression::Op::kBits) {
      return absl::InvalidArgumentError(
          absl::StrCat("operator '", proto.op(), "' is not known to this version of hone"));
    }
    HONE_RETURN_IF_ERROR(CheckCount("operands", proto.operands_size(), kOperandsMax));
    std::vector<Expression> operands;
    for (const v1::Expression& operand : proto.operands()) {
      HONE_ASSIGN_OR_RETURN(Expression e, Read(operand, depth + 1));
      operands.push_back(std::move(e));
    }
    return Expression::Make(facts->op, std::move(operands));
  }

  absl::StatusOr<LaunchRecipe> Read(const v1::LaunchRecipe& proto) {
    LaunchRecipe recipe;
    recipe.dynamic_sizes.assign(proto.dynamic_sizes().begin(), proto.dynamic_sizes().end());
    HONE_RETURN_IF_ERROR(CheckCount("arguments", proto.arguments_size(), kArgumentsMax));
    for (int i = 0; i < proto.arguments_size(); ++i) {
      HONE_ASSIGN_OR_RETURN(RecipeArgument argument, ReadArgument(proto.arguments(i), i));
      recipe.arguments.push_back(std::move(argument));
    }
    HONE_RETURN_IF_ERROR(CheckNames(recipe));
    HONE_RETURN_IF_ERROR(CheckCount("steps", proto.steps_size(), kStepsMax));
    for (int i = 0; i < proto.steps_size(); ++i) {
      HONE_ASSIGN_OR_RETURN(RecipeStep step, ReadStep(proto.steps(i), i, recipe));
      recipe.steps.push_back(std::move(step));
    }
    HONE_ASSIGN_OR_RETURN(recipe.guards, ReadList(proto.guards(), "guards", kGuardsMax));
    if (proto.has_work_bytes()) {
      HONE_ASSIGN_OR_RETURN(recipe.work_bytes, ReadField(proto.work_bytes(), "work_bytes"));
    }
    if (proto.has_work_flops()) {
      HONE_ASSIGN_OR_RETURN(recipe.work_flops, ReadField(proto.work_flops(), "work_flops"));
    }
    return recipe;
  }

 private:
  absl::StatusOr<Expression> ReadField(const v1::Expression& proto, absl::string_view field) {
    absl::StatusOr<Expression> e = Read(proto);
    if (!e.ok()) return Wrong(field, e.status().message());
    return e;
  }

  absl::StatusOr<std::vector<Expression>> ReadList(const RepeatedPtrField<v1::Expression>& proto,
                                                   absl::string_view field, int max) {
    HONE_RETURN_IF_ERROR(CheckCount(field, proto.size(), max));
    std::vector<Expression> list;
    for (int i = 0; i < proto.size(); ++i) {
      HONE_ASSIGN_OR_RETURN(Expression e, ReadField(proto[i], absl::StrCat(field, "[", i, "]")));
      list.push_back(std::move(e));
    }
    return list;
  }

  absl::Status ReadAxes(const RepeatedPtrField<v1::Expression>& proto, absl::string_view field,
                        std::array<Expression, 3>& axes) {
    HONE_ASSIGN_OR_RETURN(const std::vector<Expression> list, ReadList(proto, field, 3));
    for (size_t i = 0; i < list.size(); ++i) axes[i] = list[i];
    return absl::OkStatus();
  }

  static absl::StatusOr<DataType> ReadDataType(v1::DataType type, absl::string_view field) {
    if (type == v1::DATA_TYPE_UNSPECIFIED || !v1::DataType_IsValid(type)) {
      return Wrong(field, absl::StrCat("data type ", static_cast<int>(type),
                                       " is not known to this version of hone"));
    }
    return static_cast<DataType>(type);
  }

  absl::StatusOr<RecipeArgument> ReadArgument(const v1::RecipeArgument& proto, int index) {
    const std::string field = absl::StrCat("arguments[", index, "]");
    RecipeArgument argument;
    argument.name = proto.name();
    if (argument.name.empty()) return Wrong(field, "no name");
    switch (proto.kind_case()) {
      case v1::RecipeArgument::kBuffer: {
        HONE_ASSIGN_OR_RETURN(argument.kind, ReadBuffer(proto.buffer(), field));
        return argument;
      }
      case v1::RecipeArgument::kScalar: {
        HONE_ASSIGN_OR_RETURN(argument.kind, ReadScalar(proto.scalar(), field));
        return argument;
      }
      case v1::RecipeArgument::kTensorMap: {
        HONE_ASSIGN_OR_RETURN(argument.kind, ReadTensorMap(proto.tensor_map(), field));
        return argument;
      }
      case v1::RecipeArgument::kScratch: {
        HONE_ASSIGN_OR_RETURN(argument.kind, ReadScratch(proto.scratch(), field));
        return argument;
      }
      case v1::RecipeArgument::KIND_NOT_SET:
        break;
    }
    return Wrong(field, "a kind of argument that this version of hone does not know");
  }

  absl::StatusOr<RecipeBuffer> ReadBuffer(const v1::RecipeBuffer& proto, const std::string& field) {
    RecipeBuffer buffer;
    HONE_ASSIGN_OR_RETURN(buffer.dtype, ReadDataType(proto.dtype(), field + ".dtype"));
    HONE_ASSIGN_OR_RETURN(buffer.shape, ReadList(proto.shape(), field + ".shape", kRankMax));
    HONE_ASSIGN_OR_RETURN(buffer.strides, ReadList(proto.strides(), field + ".strides", kRankMax));
    if (buffer.shape.size() != buffer.strides.size()) {
      return Wrong(field, absl::StrCat(buffer.shape.size(), " extents but ", buffer.strides.size(),
                                       " strides"));
    }
    switch (proto.access()) {
      case v1::Buffer::READ:
        buffer.access = Access::kRead;
        break;
      case v1::Buffer::WRITE:
        buffer.access = Access::kWrite;
        break;
      case v1::Buffer::READ_WRITE:
        buffer.access = Access::kReadWrite;
        break;
      default:
        return Wrong(field, absl::StrCat("access ", static_cast<int>(proto.access()),
                                         " is not known to this version of hone"));
    }
    if (proto.alignment_bytes() < 1) {
      return Wrong(field, absl::StrCat("alignment_bytes is ", proto.alignment_bytes(),
                                       ", it must be at least 1"));
    }
    buffer.alignment_bytes = proto.alignment_bytes();
    buffer.may_alias.assign(proto.may_alias().begin(), proto.may_alias().end());
    buffer.optional = proto.optional();
    return buffer;
  }

  absl::StatusOr<RecipeScalar> ReadScalar(const v1::RecipeScalar& proto, const std::string& field) {
    RecipeScalar scalar;
    HONE_ASSIGN_OR_RETURN(scalar.type, ReadDataType(proto.type(), field + ".type"));
    if (proto.has_value()) {
      HONE_ASSIGN_OR_RETURN(scalar.value, ReadField(proto.value(), field + ".value"));
    }
    return scalar;
  }

  absl::StatusOr<RecipeTensorMap> ReadTensorMap(const v1::RecipeTensorMap& proto,
                                                const std::string& field) {
    RecipeTensorMap map;
    map.buffer = proto.buffer();
    HONE_ASSIGN_OR_RETURN(map.dtype, ReadDataType(proto.dtype(), field + ".dtype"));
    HONE_ASSIGN_OR_RETURN(map.dims, ReadList(proto.dims(), field + ".dims", kRankMax));
    HONE_ASSIGN_OR_RETURN(map.strides_bytes,
                          ReadList(proto.strides_bytes(), field + ".strides_bytes", kRankMax));
    HONE_ASSIGN_OR_RETURN(map.box, ReadList(proto.box(), field + ".box", kRankMax));
    HONE_ASSIGN_OR_RETURN(map.element_strides,
                          ReadList(proto.element_strides(), field + ".element_strides", kRankMax));
    if (!v1::TensorMap::Swizzle_IsValid(proto.swizzle()) ||
        !v1::TensorMap::Interleave_IsValid(proto.interleave()) ||
        !v1::TensorMap::L2Promotion_IsValid(proto.l2_promotion()) ||
        !v1::TensorMap::Fill_IsValid(proto.fill())) {
      return Wrong(field,
                   "a swizzle, interleave, l2_promotion or fill that this version of hone "
                   "does not know");
    }
    map.swizzle = proto.swizzle();
    map.interleave = proto.interleave();
    map.l2_promotion = proto.l2_promotion();
    map.fill_nan = proto.fill() == v1::TensorMap::FILL_NAN;
    return map;
  }

  absl::StatusOr<RecipeScratch> ReadScratch(const v1::RecipeScratch& proto,
                                            const std::string& field) {
    RecipeScratch scratch;
    HONE_ASSIGN_OR_RETURN(scratch.bytes, ReadField(proto.bytes(), field + ".bytes"));
    if (!v1::Scratch::Zeroed_IsValid(proto.zeroed())) {
      return Wrong(field, absl::StrCat("zeroed ", static_cast<int>(proto.zeroed()),
                                       " is not known to this version of hone"));
    }
    scratch.zeroed = static_cast<ScratchZeroed>(proto.zeroed());
    return scratch;
  }

  static absl::Status CheckNames(const LaunchRecipe& recipe) {
    std::set<std::string> names;
    std::set<std::string> buffers;
    for (const RecipeArgument& argument : recipe.arguments) {
      if (!names.insert(argument.name).second) {
        return Wrong("arguments", absl::StrCat("two are named '", argument.name, "'"));
      }
      if (std::holds_alternative<RecipeBuffer>(argument.kind)) buffers.insert(argument.name);
    }
    for (const RecipeArgument& argument : recipe.arguments) {
      const auto* map = std::get_if<RecipeTensorMap>(&argument.kind);
      if (map != nullptr && buffers.count(map->buffer) == 0) {
        return Wrong("arguments", absl::StrCat("tensor map '", argument.name, "' is over buffer '",
                                               map->buffer, "', which does not exist"));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status CheckIndex(const std::string& field, int index, const LaunchRecipe& recipe) {
    if (index >= 0 && static_cast<size_t>(index) < recipe.arguments.size()) {
      return absl::OkStatus();
    }
    return Wrong(field, absl::StrCat("argument ", index, " of ", recipe.arguments.size(),
                                     " does not exist"));
  }

  absl::StatusOr<RecipeStep> ReadStep(const v1::RecipeStep& proto, int number,
                                      const LaunchRecipe& recipe) {
    const std::string field = absl::StrCat("steps[", number, "]");
    RecipeStep step;
    if (proto.has_when()) {
      HONE_ASSIGN_OR_RETURN(step.when, ReadField(proto.when(), field + ".when"));
    }
    if (proto.symbol().empty()) {
      HONE_RETURN_IF_ERROR(CheckIndex(field + ".memset_argument", proto.memset_argument(), recipe));
      step.memset_argument = proto.memset_argument();
      step.memset_value = proto.memset_value();
      if (proto.has_memset_bytes()) {
        HONE_ASSIGN_OR_RETURN(step.memset_bytes,
                              ReadField(proto.memset_bytes(), field + ".memset_bytes"));
      }
      return step;
    }
    step.symbol = proto.symbol();
    HONE_RETURN_IF_ERROR(ReadAxes(proto.grid(), field + ".grid", step.launch.grid));
    HONE_RETURN_IF_ERROR(ReadAxes(proto.block(), field + ".block", step.launch.block));
    HONE_RETURN_IF_ERROR(ReadAxes(proto.cluster(), field + ".cluster", step.launch.cluster));
    if (proto.has_dynamic_shared_bytes()) {
      HONE_ASSIGN_OR_RETURN(
          step.launch.dynamic_shared_bytes,
          ReadField(proto.dynamic_shared_bytes(), field + ".dynamic_shared_bytes"));
    }
    HONE_RETURN_IF_ERROR(CheckCount(field + ".arguments", proto.arguments_size(), kArgumentsMax));
    for (const int index : proto.arguments()) {
      HONE_RETURN_IF_ERROR(CheckIndex(field + ".arguments", index, recipe));
      step.arguments.push_back(index);
    }
    step.programmatic_dependent_launch = proto.programmatic_dependent_launch();
    return step;
  }

  int nodes_ = 0;
};

}  // namespace

v1::Expression ToProto(const Expression& expression) {
  v1::Expression proto;
  proto.set_op(std::string(OpName(expression.op())));
  if (expression.op() == Expression::Op::kConst) proto.set_constant(expression.constant());
  if (expression.op() == Expression::Op::kVar) proto.set_variable(expression.variable());
  ToProtoList(expression.operands(), proto.mutable_operands());
  return proto;
}

v1::LaunchRecipe ToProto(const LaunchRecipe& recipe) {
  v1::LaunchRecipe proto;
  for (const std::string& name : recipe.dynamic_sizes) proto.add_dynamic_sizes(name);
  for (const RecipeArgument& argument : recipe.arguments) {
    *proto.add_arguments() = ToProto(argument);
  }
  for (const RecipeStep& step : recipe.steps) *proto.add_steps() = ToProto(step);
  ToProtoList(recipe.guards, proto.mutable_guards());
  *proto.mutable_work_bytes() = ToProto(recipe.work_bytes);
  *proto.mutable_work_flops() = ToProto(recipe.work_flops);
  return proto;
}

absl::StatusOr<Expression> FromProto(const v1::Expression& expression) {
  return Reader().Read(expression);
}

absl::StatusOr<LaunchRecipe> FromProto(const v1::LaunchRecipe& recipe) {
  return Reader().Read(recipe);
}

}  // namespace hone
