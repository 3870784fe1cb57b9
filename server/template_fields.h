// Single fields of template messages; the parts of ToTemplateSpec. Errors are led by `path`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "hone/v1/kernel_template.pb.h"
#include "runtime/kernel/kernel_template.h"

namespace hone {

// INVALID_ARGUMENT "steps[0].when: \"n >\": column 4: expected ...".
absl::StatusOr<Expression> ParseField(absl::string_view path, const std::string& text);

absl::StatusOr<TemplateLaunch> ConvertLaunch(const std::string& path, const v1::Launch& message);
absl::StatusOr<Parameter> ConvertParameter(const std::string& path, const v1::Parameter& message);
absl::StatusOr<TemplateArgument> ConvertArgument(const std::string& path,
                                                 const v1::Argument& message);
// `before` is the check before this one, or nullptr.
absl::StatusOr<TemplateCheck> ConvertCheck(const std::string& path, const v1::Check& message,
                                           const TemplateCheck* before);
absl::StatusOr<Feature> ConvertFeature(const std::string& path, int feature);
absl::StatusOr<DataType> ConvertDataType(const std::string& path, int type);

// INVALID_ARGUMENT for a field that this build's schema does not have, in the message or in any
// below: a template of a newer schema must not be half understood.
absl::Status RefuseUnknownFields(const std::string& path, const google::protobuf::Message& message);

}  // namespace hone
