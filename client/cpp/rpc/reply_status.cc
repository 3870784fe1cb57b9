#include "client/cpp/rpc/reply_status.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/rpc/error_detail.h"

namespace hone {
namespace {

constexpr int kGrpcStatusMax = static_cast<int>(absl::StatusCode::kUnauthenticated);

// gRPC's table for answers that never came to a gRPC server.
absl::StatusCode CodeOfHttp(int http_status) {
  switch (http_status) {
    case 400:
      return absl::StatusCode::kInternal;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kUnimplemented;
    case 429:
    case 502:
    case 503:
    case 504:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kUnknown;
  }
}

absl::Status WithoutGrpcStatus(const ReplyHeaders& headers) {
  if (headers.http_status == 0) return absl::InternalError("the reply ended without any headers");
  if (headers.http_status != 200) {
    return absl::Status(CodeOfHttp(headers.http_status),
                        absl::StrCat("HTTP status ", headers.http_status,
                                     " from what answers there; it is not a hone daemon"));
  }
  if (!absl::StartsWith(headers.content_type, "application/grpc")) {
    return absl::UnknownError(absl::StrCat("content type '", headers.content_type,
                                           "' instead of application/grpc from what answers "
                                           "there; it is not a hone daemon"));
  }
  return absl::UnknownError("the reply ended without a grpc-status");
}

int HexValue(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(digit));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

absl::StatusCode CodeOfReset(uint32_t error_code) {
  switch (error_code) {
    case NGHTTP2_REFUSED_STREAM:
      return absl::StatusCode::kUnavailable;
    case NGHTTP2_CANCEL:
      return absl::StatusCode::kCancelled;
    case NGHTTP2_ENHANCE_YOUR_CALM:
      return absl::StatusCode::kResourceExhausted;
    case NGHTTP2_INADEQUATE_SECURITY:
      return absl::StatusCode::kPermissionDenied;
    case NGHTTP2_STREAM_CLOSED:
    case NGHTTP2_HTTP_1_1_REQUIRED:
      return absl::StatusCode::kUnknown;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

void ReplyHeaders::Add(absl::string_view name, absl::string_view value) {
  size_bytes += name.size() + value.size();
  if (name == ":status") {
    if (!absl::SimpleAtoi(value, &http_status)) http_status = 0;
  } else if (name == "content-type") {
    content_type = std::string(value);
  } else if (name == "grpc-status") {
    grpc_status = std::string(value);
  } else if (name == "grpc-message") {
    grpc_message = std::string(value);
  } else if (name == "grpc-status-details-bin") {
    grpc_details = std::string(value);
  }
}

absl::Status StatusOfReply(const ReplyHeaders& headers) {
  if (!headers.grpc_status) return WithoutGrpcStatus(headers);
  int code = 0;
  if (!absl::SimpleAtoi(*headers.grpc_status, &code) || code < 0 || code > kGrpcStatusMax) {
    return absl::UnknownError(
        absl::StrCat("grpc-status '", *headers.grpc_status,
                     "' is none that this client knows: ", PercentDecoded(headers.grpc_message)));
  }
  if (code == 0) return absl::OkStatus();
  absl::Status status(static_cast<absl::StatusCode>(code), PercentDecoded(headers.grpc_message));
  std::string details;
  if (headers.grpc_details.empty() || !absl::Base64Unescape(headers.grpc_details, &details)) {
    return status;
  }
  if (const auto info = DecodeErrorDetail(details)) AttachErrorInfo(status, *info);
  return status;
}

absl::Status StatusOfReset(uint32_t error_code) {
  return absl::Status(
      CodeOfReset(error_code),
      absl::StrCat("the daemon reset the call (", nghttp2_http2_strerror(error_code), ")"));
}

std::string PercentDecoded(absl::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool sequence = text[i] == '%' && i + 2 < text.size() && HexValue(text[i + 1]) >= 0 &&
                          HexValue(text[i + 2]) >= 0;
    if (!sequence) {
      decoded.push_back(text[i]);
      continue;
    }
    decoded.push_back(static_cast<char>(HexValue(text[i + 1]) * 16 + HexValue(text[i + 2])));
    i += 2;
  }
  return decoded;
}

std::string TimeoutHeader(absl::Duration timeout) {
  struct Unit {
    absl::Duration length;
    char name;
  };
  // At most eight digits are allowed.
  constexpr int64_t kDigitsMax = 99'999'999;
  const std::array<Unit, 5> units = {{{absl::Microseconds(1), 'u'},
                                      {absl::Milliseconds(1), 'm'},
                                      {absl::Seconds(1), 'S'},
                                      {absl::Minutes(1), 'M'},
                                      {absl::Hours(1), 'H'}}};
  timeout = std::max(timeout, absl::Microseconds(1));
  for (const Unit& unit : units) {
    const int64_t count = absl::Ceil(timeout, unit.length) / unit.length;
    if (count <= kDigitsMax) return absl::StrCat(count, absl::string_view(&unit.name, 1));
  }
  return absl::StrCat(kDigitsMax, "H");
}

}  // namespace hone
