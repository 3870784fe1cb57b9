// absl::Status at the border to gRPC.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"
#include "hone/v1/kernel_service.pb.h"

namespace hone {

// The same code and text; facts attached to the status (runtime/base/error_info.h) go into an
// ErrorDetail in the status details. Text and excerpt are bounded so that they fit HTTP/2 trailers,
// and made valid UTF-8.
grpc::Status ToGrpc(const absl::Status& status);

// The ErrorDetail a status carries; its reason is the code's name when nobody gave one.
v1::ErrorDetail DetailOf(const absl::Status& status);

// INVALID_ARGUMENT "<field>: <what>".
absl::Status InvalidField(absl::string_view field, absl::string_view what);

// `text` with every byte that is not part of valid UTF-8 replaced by '?', at most `bytes_max` long;
// a cut is marked.
std::string BoundedUtf8(absl::string_view text, size_t bytes_max);

// Offset of the first byte that is not valid UTF-8; npos if all are.
size_t FindInvalidUtf8(absl::string_view text);

}  // namespace hone
