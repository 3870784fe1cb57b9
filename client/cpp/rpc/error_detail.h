// hone.v1.ErrorDetail, the facts beside an error, read without protobuf.
//
// libhone's transport has no protobuf library, and this one flat message is all that it has to
// understand itself; tests hold it against the generated class.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "runtime/base/error_info.h"

namespace hone {

// nullopt if `bytes` are no protobuf message. Unknown fields are skipped, missing ones keep
// ErrorInfo's defaults.
std::optional<ErrorInfo> DecodeErrorDetail(absl::string_view bytes);

}  // namespace hone
