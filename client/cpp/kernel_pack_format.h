// The frame of a kernel pack, as proto/hone/v1/kernel_pack.proto lays it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/map.h"
#include "google/protobuf/message_lite.h"
#include "hone/v1/kernel_pack.pb.h"

namespace hone {

inline constexpr uint32_t kPackVersion = 1;
inline constexpr size_t kPackHeadBytes = 72;
inline constexpr size_t kPackHashBytes = 32;
// What a reader takes into memory at once: the index, and a content.
inline constexpr uint64_t kPackIndexBytesMax = uint64_t{1} << 30;
inline constexpr uint64_t kPackContentBytesMax = uint64_t{1} << 30;

struct PackHead {
  uint64_t index_bytes = 0;
  uint64_t contents_bytes = 0;
  uint64_t extension_bytes = 0;
  std::string digest{};  // in hex
};

// The file's first kPackHeadBytes for this index; `digest` is computed.
std::string EncodePackHead(PackHead head, absl::string_view index);

// Errors: INVALID_ARGUMENT for what is no pack, FAILED_PRECONDITION for one that only a newer hone
// reads. Sizes are not checked. REQUIRES: kPackHeadBytes of `bytes`.
absl::StatusOr<PackHead> DecodePackHead(absl::string_view bytes);

// What `head.digest` should be.
std::string PackDigest(absl::string_view head, absl::string_view index);

// The same bytes for equal messages.
std::string DeterministicBytes(const google::protobuf::MessageLite& message);

// A parameter's value as text; a flag is 0 or 1, as the daemon has it.
std::string PackedValueText(const v1::Value& value);
// "T=F32 n=4096", sorted by name.
std::string PackedParamsText(const google::protobuf::Map<std::string, v1::Value>& params);

}  // namespace hone
