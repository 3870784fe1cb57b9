#include "server/template_fields.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/unknown_field_set.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/field_error.h"

namespace hone {
namespace {

absl::Status ConvertDtypeParameter(const std::string& path, const v1::DtypeParameter& message,
                                   Parameter& parameter) {
  parameter.kind = ParameterKind::kDtype;
  for (int i = 0; i < message.values_size(); ++i) {
    HONE_ASSIGN_OR_RETURN(
        const DataType type,
        ConvertDataType(absl::StrCat(path, ".values[", i, "]"), message.values(i)));
    parameter.dtypes.push_back(type);
  }
  if (message.default_() != v1::DATA_TYPE_UNSPECIFIED) {
    HONE_ASSIGN_OR_RETURN(const DataType type,
                          ConvertDataType(path + ".default", message.default_()));
    parameter.default_value = type;
  }
  parameter.default_from = message.default_from();
  return absl::OkStatus();
}

void ConvertChainParameter(const v1::ChainParameter& message, Parameter& parameter) {
  parameter.kind = ParameterKind::kChain;
  parameter.chain_names = {{message.inputs().begin(), message.inputs().end()},
                           {message.scalars().begin(), message.scalars().end()}};
  for (const v1::ChainPreset& preset : message.presets()) {
    parameter.presets.push_back(
        {preset.name(), preset.expression(), {preset.params().begin(), preset.params().end()}});
  }
  if (!message.default_().empty()) parameter.default_value = message.default_();
}

absl::Status ConvertSizeParameter(const std::string& path, const v1::SizeParameter& message,
                                  Parameter& parameter) {
  parameter.kind = ParameterKind::kSize;
  parameter.dynamic = message.dynamic();
  switch (message.bucket()) {
    case v1::SizeParameter::EXACT:
      parameter.bucket = BucketRule::kExact;
      break;
    case v1::SizeParameter::POW2:
      parameter.bucket = BucketRule::kPow2;
      break;
    case v1::SizeParameter::LIST:
      parameter.bucket = BucketRule::kList;
      break;
    default:
      return FieldError(path + ".bucket", absl::StrCat(message.bucket(), " is unknown"));
  }
  parameter.bucket_values.assign(message.bucket_values().begin(), message.bucket_values().end());
  if (message.has_min()) parameter.min = message.min();
  if (message.has_max()) parameter.max = message.max();
  if (message.multiple_of() != 0) parameter.multiple_of = message.multiple_of();
  if (message.has_default_()) parameter.default_value = message.default_();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Expression> ParseField(absl::string_view path, const std::string& text) {
  absl::StatusOr<Expression> parsed = Expression::Parse(text);
  if (parsed.ok()) return parsed;
  const std::string shown = text.size() <= 200 ? text : absl::StrCat(text.substr(0, 200), "...");
  return FieldError(path, absl::StrCat("\"", shown, "\": ", parsed.status().message()));
}

absl::StatusOr<DataType> ConvertDataType(const std::string& path, int type) {
  if (type != v1::DATA_TYPE_UNSPECIFIED && v1::DataType_IsValid(type)) {
    return static_cast<DataType>(type);
  }
  return FieldError(path, type == v1::DATA_TYPE_UNSPECIFIED
                              ? "not given; expected a data type like F32"
                              : absl::StrCat(type, " is not a known data type"));
}

absl::StatusOr<TemplateLaunch> ConvertLaunch(const std::string& path, const v1::Launch& message) {
  TemplateLaunch launch;
  const auto parse = [&path](absl::string_view field, const std::string& text,
                             Expression& to) -> absl::Status {
    if (text.empty()) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(to, ParseField(absl::StrCat(path, ".", field), text));
    return absl::OkStatus();
  };
  LaunchShape& shape = launch.shape;
  HONE_RETURN_IF_ERROR(parse("grid_x", message.grid_x(), shape.grid[0]));
  HONE_RETURN_IF_ERROR(parse("grid_y", message.grid_y(), shape.grid[1]));
  HONE_RETURN_IF_ERROR(parse("grid_z", message.grid_z(), shape.grid[2]));
  HONE_RETURN_IF_ERROR(parse("block_x", message.block_x(), shape.block[0]));
  HONE_RETURN_IF_ERROR(parse("block_y", message.block_y(), shape.block[1]));
  HONE_RETURN_IF_ERROR(parse("block_z", message.block_z(), shape.block[2]));
  HONE_RETURN_IF_ERROR(parse("cluster_x", message.cluster_x(), shape.cluster[0]));
  HONE_RETURN_IF_ERROR(parse("cluster_y", message.cluster_y(), shape.cluster[1]));
  HONE_RETURN_IF_ERROR(parse("cluster_z", message.cluster_z(), shape.cluster[2]));
  HONE_RETURN_IF_ERROR(
      parse("dynamic_shared_bytes", message.dynamic_shared_bytes(), shape.dynamic_shared_bytes));
  return launch;
}

absl::StatusOr<Parameter> ConvertParameter(const std::string& path, const v1::Parameter& message) {
  Parameter parameter;
  parameter.name = message.name();
  parameter.description = message.description();
  switch (message.kind_case()) {
    case v1::Parameter::kDtype:
      HONE_RETURN_IF_ERROR(ConvertDtypeParameter(path + ".dtype", message.dtype(), parameter));
      return parameter;
    case v1::Parameter::kSize:
      HONE_RETURN_IF_ERROR(ConvertSizeParameter(path + ".size", message.size(), parameter));
      return parameter;
    case v1::Parameter::kChoice:
      parameter.kind = ParameterKind::kChoice;
      parameter.choices.assign(message.choice().values().begin(), message.choice().values().end());
      if (!message.choice().default_().empty()) {
        parameter.default_value = message.choice().default_();
      }
      return parameter;
    case v1::Parameter::kFlag:
      parameter.kind = ParameterKind::kFlag;
      if (message.flag().has_default_()) {
        parameter.default_value = int64_t{message.flag().default_() ? 1 : 0};
      }
      return parameter;
    case v1::Parameter::kChain:
      ConvertChainParameter(message.chain(), parameter);
      return parameter;
    case v1::Parameter::KIND_NOT_SET:
      break;
  }
  return FieldError(path, "expected one of dtype, size, choice, flag, chain");
}

absl::StatusOr<Feature> ConvertFeature(const std::string& path, int feature) {
  switch (feature) {
    case v1::Requires::TENSOR_CORES:
      return Feature::kTensorCores;
    case v1::Requires::TMA:
      return Feature::kTma;
    case v1::Requires::WGMMA:
      return Feature::kWgmma;
    case v1::Requires::TCGEN05:
      return Feature::kTcgen05;
    case v1::Requires::CLUSTERS:
      return Feature::kClusters;
    case v1::Requires::ASYNC_COPY:
      return Feature::kAsyncCopy;
    case v1::Requires::FP8:
      return Feature::kFp8;
    default:
      return FieldError(path, absl::StrCat(feature, " is not a known feature"));
  }
}

absl::StatusOr<TemplateCheck> ConvertCheck(const std::string& path, const v1::Check& message,
                                           const TemplateCheck* before) {
  TemplateCheck check;
  check.reference = message.reference();
  check.chain = message.chain();
  check.output = message.output();
  if (!message.reference().empty()) {
    HONE_ASSIGN_OR_RETURN(check.launch, ConvertLaunch(path + ".launch", message.launch()));
  } else if (message.has_launch()) {
    return FieldError(path + ".launch", "given without a reference");
  } else if (before != nullptr && message.chain().empty()) {
    check.reference = before->reference;
    check.launch = before->launch;
  }
  if (!v1::Check::NanPolicy_IsValid(message.nan())) {
    return FieldError(path + ".nan", absl::StrCat(message.nan(), " is unknown"));
  }
  check.tolerance.exact = message.exact();
  check.tolerance.atol = message.atol();
  check.tolerance.rtol = message.rtol();
  check.tolerance.mismatch_share_max = message.mismatch_share_max();
  check.tolerance.nan = message.nan() == v1::Check::NAN_FORBIDDEN ? NanPolicy::kNanForbidden
                                                                  : NanPolicy::kNanMatchesNan;
  for (int i = 0; i < message.by_dtype_size(); ++i) {
    const std::string here = absl::StrCat(path, ".by_dtype[", i, "]");
    HONE_ASSIGN_OR_RETURN(const DataType type,
                          ConvertDataType(here + ".dtype", message.by_dtype(i).dtype()));
    Tolerance tolerance = check.tolerance;
    tolerance.exact = false;
    tolerance.atol = message.by_dtype(i).atol();
    tolerance.rtol = message.by_dtype(i).rtol();
    if (!check.by_dtype.emplace(type, tolerance).second) {
      return FieldError(here + ".dtype", absl::StrCat(Name(type), " is given twice"));
    }
  }
  return check;
}

absl::Status RefuseUnknownFields(const std::string& path,
                                 const google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    return FieldError(path.empty() ? "template" : path,
                      absl::StrCat("field number ", unknown.field(0).number(), " of ",
                                   message.GetTypeName(), " is not known to this version of hone"));
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      HONE_RETURN_IF_ERROR(
          RefuseUnknownFields(prefix + field->name(), reflection.GetMessage(message, field)));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      HONE_RETURN_IF_ERROR(RefuseUnknownFields(absl::StrCat(prefix, field->name(), "[", i, "]"),
                                               reflection.GetRepeatedMessage(message, field, i)));
    }
  }
  return absl::OkStatus();
}

}  // namespace hone
