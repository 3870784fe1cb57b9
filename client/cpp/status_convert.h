// gRPC's status as Abseil's.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace hone {

// The same code and text; facts in the ErrorDetail become the status's ErrorInfo.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace hone
