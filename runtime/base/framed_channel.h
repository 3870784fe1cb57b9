// Messages over a stream socket: four bytes of little-endian length, then that many bytes.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/clocks.h"
#include "runtime/base/unique_fd.h"

namespace hone {

// Owns the socket. Not thread-safe, but one thread may send while another receives.
//
// UNAVAILABLE: the peer has closed, before or inside a message. DEADLINE_EXCEEDED: the deadline
// passed; a message may have gone or come in part, so the channel is of no further use.
// RESOURCE_EXHAUSTED: a message above the limit, sent or announced; when announced by the peer, the
// channel is of no further use.
class FramedChannel {
 public:
  // Enough for the largest artifact that workers hand over.
  static constexpr uint32_t kMessageBytesMax = uint32_t{512} << 20;

  explicit FramedChannel(UniqueFd socket, uint32_t message_bytes_max = kMessageBytesMax);
  FramedChannel(FramedChannel&&) = default;
  FramedChannel& operator=(FramedChannel&&) = default;

  absl::Status Send(absl::string_view message, Deadline deadline);
  absl::StatusOr<std::string> Receive(Deadline deadline);

  // Whether the peer has hung up (or sent something unasked), without reading. For idle workers.
  bool PeerGone() const;

  int fd() const { return socket_.get(); }
  void Close() { socket_.Reset(); }

 private:
  absl::Status ReadExactly(char* to, size_t bytes, Deadline deadline);

  UniqueFd socket_;
  uint32_t message_bytes_max_;
};

}  // namespace hone
