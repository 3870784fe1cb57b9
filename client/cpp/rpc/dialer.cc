#include "client/cpp/rpc/dialer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "client/cpp/rpc/endpoint.h"

namespace hone {
namespace {

// A unix socket whose backlog is full cannot be waited for; it is tried again after this long.
constexpr std::chrono::milliseconds kBacklogPause(5);

constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

}  // namespace

Dialer::Dialer(std::string endpoint, Duration timeout)
    : endpoint_(std::move(endpoint)),
      timeout_(timeout),
      is_unix_(UnixPath(endpoint_).has_value()),
      addresses_(nullptr, &freeaddrinfo) {}

Dialer::Progress Dialer::Step(Time now) {
  if (!begun_) {
    begun_ = true;
    give_up_at_ = now + timeout_;
    if (!is_unix_) Resolve();
    return Start(now);
  }
  if (!connecting_) return Start(now);  // the backlog was full
  pollfd polled{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
  if (poll(&polled, 1, 0) <= 0) {
    if (now < give_up_at_) return Progress::kWaiting;
    error_ = ETIMEDOUT;
    return NextAddress(now);
  }
  socklen_t size = sizeof(error_);
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error_, &size) != 0) error_ = errno;
  return error_ == 0 ? Progress::kConnected : NextAddress(now);
}

void Dialer::Resolve() {
  error_ = EADDRNOTAVAIL;
  const absl::StatusOr<HostPort> parts = ParseHostPort(endpoint_);
  if (!parts.ok()) return;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  // An address first: it must not depend on the resolver's files and servers.
  for (const int flags : {AI_NUMERICHOST | AI_NUMERICSERV, AI_NUMERICSERV}) {
    hints.ai_flags = flags;
    if (getaddrinfo(parts->host.c_str(), parts->port.c_str(), &hints, &found) == 0) break;
    found = nullptr;
  }
  addresses_.reset(found);
  next_ = found;
}

Dialer::Progress Dialer::Start(Time now) {
  if (is_unix_) return StartUnix(now);
  if (next_ == nullptr) return Progress::kFailed;
  socket_.Reset(::socket(next_->ai_family, kSocketFlags, next_->ai_protocol));
  if (!socket_.valid()) {
    error_ = errno;
    return NextAddress(now);
  }
  const int on = 1;
  // Best effort: without it small requests may wait for an acknowledgement.
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return Connect(next_->ai_addr, next_->ai_addrlen, now);
}

Dialer::Progress Dialer::StartUnix(Time now) {
  const std::optional<std::string> path = UnixPath(endpoint_);
  socket_.Reset(::socket(AF_UNIX, kSocketFlags, 0));
  if (!socket_.valid()) {
    error_ = errno;
    return Progress::kFailed;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path->copy(address.sun_path, sizeof(address.sun_path) - 1);
  return Connect(reinterpret_cast<const sockaddr*>(&address), sizeof(address), now);
}

Dialer::Progress Dialer::Connect(const sockaddr* address, socklen_t size, Time now) {
  connecting_ = false;
  next_step_at_ = give_up_at_;
  if (connect(socket_.get(), address, size) == 0) return Progress::kConnected;
  error_ = errno;
  if (error_ == EINPROGRESS || error_ == EINTR) {
    connecting_ = true;
    return Progress::kWaiting;
  }
  if (!is_unix_ || error_ != EAGAIN) return NextAddress(now);
  socket_.Reset();
  if (now >= give_up_at_) {
    error_ = 0;  // somebody listens there, and takes nobody
    return Progress::kFailed;
  }
  next_step_at_ = std::min(give_up_at_, now + kBacklogPause);
  return Progress::kWaiting;
}

Dialer::Progress Dialer::NextAddress(Time now) {
  socket_.Reset();
  connecting_ = false;
  if (next_ != nullptr) next_ = next_->ai_next;
  if (next_ == nullptr) return Progress::kFailed;
  give_up_at_ = now + timeout_;
  return Start(now);
}

}  // namespace hone
