// gRPC's framing of messages in a stream: one byte for compression, four for the length, the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hone {

// `message` with its prefix. It has less than 4 GiB.
std::string FramedMessage(absl::string_view message);

// Takes messages out of bytes as they come. Not thread-safe.
class MessageReader {
 public:
  // A message may have `message_bytes_max` bytes.
  explicit MessageReader(size_t message_bytes_max) : message_bytes_max_(message_bytes_max) {}

  // Appends each message that `bytes` complete to `messages`. RESOURCE_EXHAUSTED as soon as the
  // prefix of one announces more than the bound; INTERNAL if one is compressed, which nobody asked
  // for. Must not be called again after an error.
  absl::Status Feed(absl::string_view bytes, std::vector<std::string>& messages);

  // Whether a message began that has not ended.
  bool within_message() const { return prefix_size_ > 0; }

 private:
  // Reads prefix_ once it is complete.
  absl::Status BeginMessage();

  const size_t message_bytes_max_;
  std::array<unsigned char, 5> prefix_ = {};
  size_t prefix_size_ = 0;
  size_t message_size_ = 0;
  std::string message_;
};

}  // namespace hone
