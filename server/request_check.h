// Requests as they come off the wire: what is wrong with one is said by field, before any handler
// runs.
#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace hone {

// A request of more bytes is refused with a text that names the limit. gRPC's own limit is higher,
// so that this text is seen.
inline constexpr int64_t kRequestBytesMax = int64_t{16} << 20;
inline constexpr int kTransportBytesMax = 32 << 20;

// Parses `bytes` into `message`. RESOURCE_EXHAUSTED (too large, with the limit), or
// INVALID_ARGUMENT that names the field: text that is not valid UTF-8 or holds a NUL, an enum value
// nobody knows.
absl::Status ParseRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message* message);

// The checks of ParseRequest on a parsed message: NULs in text and unknown enum values.
absl::Status CheckFields(const google::protobuf::Message& message);

}  // namespace hone
