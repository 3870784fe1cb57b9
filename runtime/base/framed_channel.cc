#include "runtime/base/framed_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

constexpr size_t kHeaderBytes = 4;
// A message grows by at most this much ahead of the bytes that arrived, so that a peer cannot make
// this process reserve memory by announcing a length.
constexpr size_t kReceiveStepBytes = size_t{4} << 20;

absl::Status WaitFor(int fd, short events, Deadline deadline) {
  while (true) {
    struct pollfd watched = {fd, events, 0};
    const int ready = ::poll(&watched, 1, deadline.remaining_poll_ms());
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
    if (deadline.passed()) return absl::DeadlineExceededError("no message within the time limit");
  }
}

absl::Status SocketError(int error, absl::string_view what) {
  if (error == EPIPE || error == ECONNRESET) return absl::UnavailableError("the peer has closed");
  return ErrnoStatus(error, what);
}

}  // namespace

FramedChannel::FramedChannel(UniqueFd socket, uint32_t message_bytes_max)
    : socket_(std::move(socket)), message_bytes_max_(message_bytes_max) {}

absl::Status FramedChannel::Send(absl::string_view message, Deadline deadline) {
  if (message.size() > message_bytes_max_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("message of ", message.size(), " bytes; the limit is ", message_bytes_max_));
  }
  const auto length = static_cast<uint32_t>(message.size());
  char header[kHeaderBytes];
  for (size_t i = 0; i < kHeaderBytes; ++i) header[i] = static_cast<char>(length >> (8 * i));

  size_t sent = 0;
  while (sent < kHeaderBytes + message.size()) {
    struct iovec parts[2] = {{header, kHeaderBytes},
                             {const_cast<char*>(message.data()), message.size()}};
    size_t skip = sent;
    for (struct iovec& part : parts) {
      const size_t cut = std::min(skip, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + cut;
      part.iov_len -= cut;
      skip -= cut;
    }
    struct msghdr packet = {};
    packet.msg_iov = parts;
    packet.msg_iovlen = 2;
    const ssize_t put = ::sendmsg(socket_.get(), &packet, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put >= 0) {
      sent += static_cast<size_t>(put);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      HONE_RETURN_IF_ERROR(WaitFor(socket_.get(), POLLOUT, deadline));
    } else if (errno != EINTR) {
      return SocketError(errno, "send");
    }
  }
  return absl::OkStatus();
}

absl::Status FramedChannel::ReadExactly(char* to, size_t bytes, Deadline deadline) {
  while (bytes > 0) {
    const ssize_t got = ::recv(socket_.get(), to, bytes, MSG_DONTWAIT);
    if (got > 0) {
      to += got;
      bytes -= static_cast<size_t>(got);
    } else if (got == 0) {
      return absl::UnavailableError("the peer has closed");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      HONE_RETURN_IF_ERROR(WaitFor(socket_.get(), POLLIN, deadline));
    } else if (errno != EINTR) {
      return SocketError(errno, "receive");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FramedChannel::Receive(Deadline deadline) {
  char header[kHeaderBytes];
  HONE_RETURN_IF_ERROR(ReadExactly(header, kHeaderBytes, deadline));
  uint32_t length = 0;
  for (size_t i = 0; i < kHeaderBytes; ++i) {
    length |= static_cast<uint32_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  }
  if (length > message_bytes_max_) {
    return absl::ResourceExhaustedError(absl::StrCat("the peer announced a message of ", length,
                                                     " bytes; the limit is ", message_bytes_max_));
  }
  std::string message;
  while (message.size() < length) {
    const size_t begin = message.size();
    message.resize(std::min<size_t>(length, begin + kReceiveStepBytes));
    HONE_RETURN_IF_ERROR(ReadExactly(&message[begin], message.size() - begin, deadline));
  }
  return message;
}

bool FramedChannel::PeerGone() const {
  struct pollfd watched = {socket_.get(), POLLIN | POLLRDHUP, 0};
  return ::poll(&watched, 1, 0) != 0;
}

}  // namespace hone
