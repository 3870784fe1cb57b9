// What a reply's headers and trailers, or its end without any, mean as a status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace hone {

// The headers and trailers of one reply, as far as they matter here.
struct ReplyHeaders {
  int http_status = 0;  // 0: none came
  std::string content_type{};
  std::optional<std::string> grpc_status{};  // decimal, as sent
  std::string grpc_message{};                // as sent, percent-encoded
  std::string grpc_details{};                // as sent, in base64
  size_t size_bytes = 0;                     // of all names and values

  void Add(absl::string_view name, absl::string_view value);
};

// The status of a reply that has ended: OK, or the daemon's code and text with its ErrorInfo (see
// runtime/base/error_info.h). Without a grpc-status the HTTP status decides, as gRPC maps it.
absl::Status StatusOfReply(const ReplyHeaders& headers);

// The status of a stream that was reset with this HTTP/2 error code.
absl::Status StatusOfReset(uint32_t error_code);

// `text` with each %XX as the byte it stands for; what is no such sequence stays as it is.
std::string PercentDecoded(absl::string_view text);

// The value of the grpc-timeout header, rounded up: the server must not end before the client.
// `timeout` is finite; one that has passed becomes the shortest there is.
std::string TimeoutHeader(absl::Duration timeout);

}  // namespace hone
