#include "client/cpp/kernel_pack_format.h"

#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "runtime/base/sha256.h"

namespace hone {
namespace {

constexpr absl::string_view kMagic = "HONEPACK";
constexpr size_t kDigestAt = kPackHeadBytes - kPackHashBytes;

void AppendNumber(std::string& bytes, uint64_t number, int width) {
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
}

uint64_t NumberAt(absl::string_view bytes, size_t at, int width) {
  uint64_t number = 0;
  for (int i = width; i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(bytes[at + static_cast<size_t>(i)]);
  }
  return number;
}

}  // namespace

std::string PackDigest(absl::string_view head, absl::string_view index) {
  return Sha256().Update(head.substr(0, kDigestAt)).Update(index).FinishHex();
}

std::string EncodePackHead(PackHead head, absl::string_view index) {
  std::string bytes(kMagic);
  AppendNumber(bytes, kPackVersion, 4);
  AppendNumber(bytes, 0, 4);
  AppendNumber(bytes, index.size(), 8);
  AppendNumber(bytes, head.contents_bytes, 8);
  AppendNumber(bytes, head.extension_bytes, 8);
  return bytes + absl::HexStringToBytes(PackDigest(bytes, index));
}

absl::StatusOr<PackHead> DecodePackHead(absl::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("is no kernel pack: it does not begin with HONEPACK");
  }
  const uint64_t version = NumberAt(bytes, 8, 4);
  if (version != kPackVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "has format version ", version, ", this hone reads version ", kPackVersion,
        version > kPackVersion ? "; update hone, or export the pack with the older one" : ""));
  }
  if (const uint64_t features = NumberAt(bytes, 12, 4); features != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "uses features 0x", absl::Hex(features), ", of which this hone knows none; update hone"));
  }
  return PackHead{.index_bytes = NumberAt(bytes, 16, 8),
                  .contents_bytes = NumberAt(bytes, 24, 8),
                  .extension_bytes = NumberAt(bytes, 32, 8),
                  .digest = absl::BytesToHexString(bytes.substr(kDigestAt, kPackHashBytes))};
}

std::string DeterministicBytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

std::string PackedValueText(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kInteger:
      return absl::StrCat(value.integer());
    case v1::Value::kText:
      return value.text();
    case v1::Value::kFlag:
      return value.flag() ? "1" : "0";
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return "";
}

std::string PackedParamsText(const google::protobuf::Map<std::string, v1::Value>& params) {
  std::map<std::string, std::string> sorted;
  for (const auto& [name, value] : params) sorted[name] = PackedValueText(value);
  return absl::StrJoin(sorted, " ", absl::PairFormatter("="));
}

}  // namespace hone
