#include "client/cpp/status_convert.h"

#include "hone/v1/kernel_service.pb.h"
#include "runtime/base/error_info.h"

namespace hone {

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status converted(static_cast<absl::StatusCode>(status.error_code()),
                         status.error_message());
  v1::ErrorDetail detail;
  if (status.error_details().empty() || !detail.ParseFromString(status.error_details())) {
    return converted;
  }
  AttachErrorInfo(converted, ErrorInfo{.reason = detail.reason(),
                                       .excerpt = detail.excerpt(),
                                       .log_id = detail.log_id(),
                                       .error_count = detail.error_count(),
                                       .error_limit_reached = detail.error_limit_reached(),
                                       .needed = detail.needed(),
                                       .available = detail.available(),
                                       .retry_after_ms = detail.retry_after_ms()});
  return converted;
}

}  // namespace hone
