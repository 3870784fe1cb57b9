// Arguments of template messages.
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/field_error.h"
#include "server/template_fields.h"

namespace hone {
namespace {

template <typename Texts>
absl::StatusOr<std::vector<Expression>> ParseAll(absl::string_view path, const Texts& texts) {
  std::vector<Expression> parsed;
  for (int i = 0; i < texts.size(); ++i) {
    HONE_ASSIGN_OR_RETURN(Expression one,
                          ParseField(absl::StrCat(path, "[", i, "]"), texts.Get(i)));
    parsed.push_back(std::move(one));
  }
  return parsed;
}

absl::StatusOr<Access> ConvertAccess(const std::string& path, int access) {
  switch (access) {
    case v1::Buffer::READ:
      return Access::kRead;
    case v1::Buffer::WRITE:
      return Access::kWrite;
    case v1::Buffer::READ_WRITE:
      return Access::kReadWrite;
    default:
      return FieldError(path, "expected READ, WRITE or READ_WRITE");
  }
}

absl::StatusOr<InitKind> ConvertInitKind(const std::string& path, int init) {
  switch (init) {
    case v1::Buffer::NORMAL:
      return InitKind::kNormal;
    case v1::Buffer::UNIFORM:
      return InitKind::kUniform;
    case v1::Buffer::UNIFORM_INT:
      return InitKind::kUniformInt;
    case v1::Buffer::IOTA:
      return InitKind::kIota;
    case v1::Buffer::INDEX:
      return InitKind::kIndex;
    case v1::Buffer::PERMUTATION:
      return InitKind::kPermutation;
    case v1::Buffer::OFFSETS:
      return InitKind::kOffsets;
    case v1::Buffer::ZEROS:
      return InitKind::kZeros;
    case v1::Buffer::GENERATOR:
      return InitKind::kGenerator;
    case v1::Buffer::CAPTURE:
      return FieldError(path,
                        "CAPTURE is not supported by this version of hone: it has no recorder of "
                        "launches; use a generator");
    default:
      return FieldError(path, absl::StrCat(init, " is not a known init"));
  }
}

absl::Status ConvertInit(const std::string& path, const v1::Buffer& message,
                         TemplateBuffer& buffer) {
  if (message.init() != v1::Buffer::INIT_UNSPECIFIED) {
    HONE_ASSIGN_OR_RETURN(buffer.init, ConvertInitKind(path + ".init", message.init()));
  }
  if (!message.init_low().empty()) {
    HONE_ASSIGN_OR_RETURN(buffer.init_low, ParseField(path + ".init_low", message.init_low()));
  }
  if (!message.init_high().empty()) {
    HONE_ASSIGN_OR_RETURN(buffer.init_high, ParseField(path + ".init_high", message.init_high()));
  }
  buffer.init_skew = message.init_skew();
  if (!message.has_generator()) return absl::OkStatus();
  if (message.generator().entry().empty()) {
    return FieldError(path + ".generator.entry", "is empty");
  }
  buffer.generator_entry = message.generator().entry();
  HONE_ASSIGN_OR_RETURN(buffer.generator_launch,
                        ConvertLaunch(path + ".generator.launch", message.generator().launch()));
  return absl::OkStatus();
}

absl::StatusOr<TemplateBuffer> ConvertBuffer(const std::string& path, const v1::Buffer& message) {
  TemplateBuffer buffer;
  buffer.dtype = message.dtype();
  HONE_ASSIGN_OR_RETURN(buffer.shape, ParseAll(path + ".shape", message.shape()));
  HONE_ASSIGN_OR_RETURN(buffer.strides, ParseAll(path + ".strides", message.strides()));
  HONE_ASSIGN_OR_RETURN(buffer.access, ConvertAccess(path + ".access", message.access()));
  if (!message.alignment_bytes().empty()) {
    HONE_ASSIGN_OR_RETURN(buffer.alignment_bytes,
                          ParseField(path + ".alignment_bytes", message.alignment_bytes()));
  }
  buffer.may_alias.assign(message.may_alias().begin(), message.may_alias().end());
  buffer.optional = message.optional();
  HONE_RETURN_IF_ERROR(ConvertInit(path, message, buffer));
  return buffer;
}

absl::StatusOr<TemplateScalar> ConvertScalar(const std::string& path, const v1::Scalar& message) {
  TemplateScalar scalar;
  HONE_ASSIGN_OR_RETURN(scalar.type, ConvertDataType(path + ".type", message.type()));
  if (message.value().empty() == !message.has_per_launch()) {
    return FieldError(path, "expected either value or per_launch");
  }
  if (message.has_per_launch()) {
    scalar.sample = message.per_launch().sample();
  } else {
    HONE_ASSIGN_OR_RETURN(scalar.value, ParseField(path + ".value", message.value()));
  }
  return scalar;
}

absl::StatusOr<TemplateTensorMap> ConvertTensorMap(const std::string& path,
                                                   const v1::TensorMap& message) {
  TemplateTensorMap tensor_map;
  RecipeTensorMap& map = tensor_map.map;
  map.buffer = message.buffer();
  HONE_ASSIGN_OR_RETURN(map.dims, ParseAll(path + ".dims", message.dims()));
  HONE_ASSIGN_OR_RETURN(map.strides_bytes,
                        ParseAll(path + ".strides_bytes", message.strides_bytes()));
  HONE_ASSIGN_OR_RETURN(map.box, ParseAll(path + ".box", message.box()));
  HONE_ASSIGN_OR_RETURN(map.element_strides,
                        ParseAll(path + ".element_strides", message.element_strides()));
  const auto known = [&path](bool valid, absl::string_view field, int value) {
    if (valid) return absl::OkStatus();
    return FieldError(absl::StrCat(path, ".", field), absl::StrCat(value, " is unknown"));
  };
  HONE_RETURN_IF_ERROR(
      known(v1::TensorMap::Swizzle_IsValid(message.swizzle()), "swizzle", message.swizzle()));
  HONE_RETURN_IF_ERROR(known(v1::TensorMap::Interleave_IsValid(message.interleave()), "interleave",
                             message.interleave()));
  HONE_RETURN_IF_ERROR(known(v1::TensorMap::L2Promotion_IsValid(message.l2_promotion()),
                             "l2_promotion", message.l2_promotion()));
  HONE_RETURN_IF_ERROR(known(v1::TensorMap::Fill_IsValid(message.fill()), "fill", message.fill()));
  map.swizzle = message.swizzle();
  map.interleave = message.interleave();
  map.l2_promotion = message.l2_promotion();
  map.fill_nan = message.fill() == v1::TensorMap::FILL_NAN;
  return tensor_map;
}

absl::StatusOr<TemplateScratch> ConvertScratch(const std::string& path,
                                               const v1::Scratch& message) {
  TemplateScratch scratch;
  HONE_ASSIGN_OR_RETURN(scratch.bytes, ParseField(path + ".bytes", message.bytes()));
  switch (message.zeroed()) {
    case v1::Scratch::NEVER:
      scratch.zeroed = ScratchZeroed::kNever;
      return scratch;
    case v1::Scratch::ONCE:
      scratch.zeroed = ScratchZeroed::kOnce;
      return scratch;
    case v1::Scratch::EVERY_LAUNCH:
      scratch.zeroed = ScratchZeroed::kEveryLaunch;
      return scratch;
    default:
      return FieldError(path + ".zeroed", absl::StrCat(message.zeroed(), " is unknown"));
  }
}

}  // namespace

absl::StatusOr<TemplateArgument> ConvertArgument(const std::string& path,
                                                 const v1::Argument& message) {
  TemplateArgument argument;
  argument.name = message.name();
  switch (message.kind_case()) {
    case v1::Argument::kBuffer: {
      HONE_ASSIGN_OR_RETURN(argument.kind, ConvertBuffer(path + ".buffer", message.buffer()));
      return argument;
    }
    case v1::Argument::kScalar: {
      HONE_ASSIGN_OR_RETURN(argument.kind, ConvertScalar(path + ".scalar", message.scalar()));
      return argument;
    }
    case v1::Argument::kTensorMap: {
      HONE_ASSIGN_OR_RETURN(argument.kind,
                            ConvertTensorMap(path + ".tensor_map", message.tensor_map()));
      return argument;
    }
    case v1::Argument::kScratch: {
      HONE_ASSIGN_OR_RETURN(argument.kind, ConvertScratch(path + ".scratch", message.scratch()));
      return argument;
    }
    case v1::Argument::KIND_NOT_SET:
      break;
  }
  return FieldError(path, "expected one of buffer, scalar, tensor_map, scratch");
}

}  // namespace hone
