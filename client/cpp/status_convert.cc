#include "client/cpp/status_convert.h"

#include "client/cpp/rpc/error_detail.h"
#include "runtime/base/error_info.h"

namespace hone {

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status converted(static_cast<absl::StatusCode>(status.error_code()),
                         status.error_message());
  if (const auto info = DecodeErrorDetail(status.error_details());
      info && !status.error_details().empty()) {
    AttachErrorInfo(converted, *info);
  }
  return converted;
}

}  // namespace hone
