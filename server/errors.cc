#include "server/errors.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"

namespace hone {
namespace {

// gRPC refuses trailers above 8 KiB. The text may grow threefold by percent-encoding (in the worst
// case) and the details by a third in base64.
constexpr size_t kMessageBytesMax = 1500;
constexpr size_t kExcerptBytesMax = 1500;

// Length of the UTF-8 sequence at the start of `text`, 0 when it is not valid.
size_t SequenceLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continued = [&](size_t length) {
    if (text.size() < length) return false;
    for (size_t i = 1; i < length; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return false;
    }
    return true;
  };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continued(2) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!continued(3)) return 0;
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!continued(4)) return 0;
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool beyond = lead == 0xF4 && byte(1) >= 0x90;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

}  // namespace

size_t FindInvalidUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceLength(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return absl::string_view::npos;
}

std::string BoundedUtf8(absl::string_view text, size_t bytes_max) {
  static constexpr absl::string_view kCut = " [...]";
  std::string bounded;
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceLength(text.substr(i));
    const absl::string_view piece = length == 0 ? "?" : text.substr(i, length);
    if (bounded.size() + piece.size() + kCut.size() > bytes_max && text.size() > bytes_max) {
      return absl::StrCat(bounded, kCut);
    }
    absl::StrAppend(&bounded, piece);
    i += length == 0 ? 1 : length;
  }
  return bounded;
}

absl::Status InvalidField(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

v1::ErrorDetail DetailOf(const absl::Status& status) {
  v1::ErrorDetail detail;
  if (const auto info = ErrorInfoOf(status)) {
    detail.set_reason(BoundedUtf8(info->reason, 100));
    detail.set_excerpt(BoundedUtf8(info->excerpt, kExcerptBytesMax));
    detail.set_log_id(BoundedUtf8(info->log_id, 100));
    detail.set_error_count(static_cast<int32_t>(info->error_count));
    detail.set_error_limit_reached(info->error_limit_reached);
    detail.set_needed(info->needed);
    detail.set_available(info->available);
    detail.set_retry_after_ms(info->retry_after_ms);
  }
  if (detail.reason().empty()) detail.set_reason(absl::StatusCodeToString(status.code()));
  return detail;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::string_view message = status.message();
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      BoundedUtf8(message, kMessageBytesMax), DetailOf(status).SerializeAsString());
}

}  // namespace hone
