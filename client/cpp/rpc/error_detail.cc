#include "client/cpp/rpc/error_detail.h"

#include <cstdint>
#include <string>

namespace hone {
namespace {

// The parts of protobuf's wire format that a flat message needs; groups, long deprecated, count as
// damage.
class WireReader {
 public:
  explicit WireReader(absl::string_view bytes) : rest_(bytes) {}

  bool AtEnd() const { return rest_.empty(); }

  bool Varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool Bytes(absl::string_view& value) {
    uint64_t length = 0;
    if (!Varint(length) || length > rest_.size()) return false;
    value = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }

  bool Skip(size_t count) {
    if (count > rest_.size()) return false;
    rest_.remove_prefix(count);
    return true;
  }

 private:
  absl::string_view rest_;
};

constexpr uint64_t kVarint = 0;
constexpr uint64_t kFixed64 = 1;
constexpr uint64_t kBytes = 2;
constexpr uint64_t kFixed32 = 5;

void SetText(uint64_t field, absl::string_view value, ErrorInfo& info) {
  if (field == 1) info.reason = std::string(value);
  if (field == 2) info.excerpt = std::string(value);
  if (field == 3) info.log_id = std::string(value);
}

void SetNumber(uint64_t field, uint64_t value, ErrorInfo& info) {
  const auto number = static_cast<int64_t>(value);
  if (field == 4) info.error_count = number;
  if (field == 5) info.error_limit_reached = number != 0;
  if (field == 6) info.needed = number;
  if (field == 7) info.available = number;
  if (field == 8) info.retry_after_ms = number;
}

bool ReadField(WireReader& reader, ErrorInfo& info) {
  uint64_t tag = 0;
  if (!reader.Varint(tag) || tag >> 3 == 0) return false;
  uint64_t number = 0;
  absl::string_view text;
  switch (tag & 7) {
    case kVarint:
      if (!reader.Varint(number)) return false;
      SetNumber(tag >> 3, number, info);
      return true;
    case kBytes:
      if (!reader.Bytes(text)) return false;
      SetText(tag >> 3, text, info);
      return true;
    case kFixed64:
      return reader.Skip(8);
    case kFixed32:
      return reader.Skip(4);
    default:
      return false;
  }
}

}  // namespace

std::optional<ErrorInfo> DecodeErrorDetail(absl::string_view bytes) {
  WireReader reader(bytes);
  ErrorInfo info;
  while (!reader.AtEnd()) {
    if (!ReadField(reader, info)) return std::nullopt;
  }
  return info;
}

}  // namespace hone
