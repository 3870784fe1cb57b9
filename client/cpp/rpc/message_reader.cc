#include "client/cpp/rpc/message_reader.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// A peer's announcement alone does not take more memory than this.
constexpr size_t kReservedBytesMax = size_t{1} << 20;

}  // namespace

std::string FramedMessage(absl::string_view message) {
  const auto size = static_cast<uint32_t>(message.size());
  std::string framed;
  framed.reserve(5 + message.size());
  framed.push_back(0);
  for (const int shift : {24, 16, 8, 0}) framed.push_back(static_cast<char>(size >> shift & 0xff));
  framed.append(message.data(), message.size());
  return framed;
}

absl::Status MessageReader::BeginMessage() {
  message_size_ = size_t{prefix_[1]} << 24 | size_t{prefix_[2]} << 16 | size_t{prefix_[3]} << 8 |
                  size_t{prefix_[4]};
  if (prefix_[0] != 0) {
    return absl::InternalError(absl::StrCat("the daemon's reply is compressed (flag ",
                                            static_cast<int>(prefix_[0]),
                                            "), but this client offers no compression"));
  }
  if (message_size_ > message_bytes_max_) {
    return absl::ResourceExhaustedError(absl::StrCat("the daemon's reply has ", message_size_,
                                                     " bytes; this client takes at most ",
                                                     message_bytes_max_));
  }
  message_.reserve(std::min(message_size_, kReservedBytesMax));
  return absl::OkStatus();
}

absl::Status MessageReader::Feed(absl::string_view bytes, std::vector<std::string>& messages) {
  while (!bytes.empty()) {
    if (prefix_size_ < prefix_.size()) {
      prefix_[prefix_size_++] = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      if (prefix_size_ < prefix_.size()) continue;
      HONE_RETURN_IF_ERROR(BeginMessage());
    }
    const size_t taken = std::min(bytes.size(), message_size_ - message_.size());
    message_.append(bytes.data(), taken);
    bytes.remove_prefix(taken);
    if (message_.size() < message_size_) continue;
    messages.push_back(std::exchange(message_, {}));
    prefix_size_ = 0;
  }
  return absl::OkStatus();
}

}  // namespace hone
