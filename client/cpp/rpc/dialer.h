// Makes one connection to an endpoint, step by step, without ever blocking on the peer.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>

#include "runtime/base/unique_fd.h"

namespace hone {

// One try: all addresses of the endpoint in turn. Not thread-safe.
class Dialer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  // `endpoint` has passed CheckEndpoint. Each address gets `timeout`.
  Dialer(std::string endpoint, Duration timeout);

  enum class Progress { kConnected, kWaiting, kFailed };

  // Goes on as far as it can. The first step resolves a host name, which may take what the
  // resolver takes; an address needs no resolver. While it is waiting, the next step is due when
  // poll_fd() is writable or at next_step_at().
  Progress Step(Time now);

  int poll_fd() const { return socket_.get(); }  // -1: only time helps
  Time next_step_at() const { return next_step_at_; }

  // After kConnected.
  UniqueFd TakeSocket() { return std::move(socket_); }
  // After kFailed: of the last address. For a name that does not resolve, EADDRNOTAVAIL.
  int error() const { return error_; }

 private:
  void Resolve();
  // Starts with the socket's address at `next_`; sets error_ when that fails.
  Progress Start(Time now);
  Progress StartUnix(Time now);
  Progress Connect(const sockaddr* address, socklen_t size, Time now);
  Progress NextAddress(Time now);

  const std::string endpoint_;
  const Duration timeout_;
  bool is_unix_ = false;
  bool begun_ = false;
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses_;
  const addrinfo* next_ = nullptr;
  UniqueFd socket_;
  bool connecting_ = false;  // connect() is under way on socket_
  Time give_up_at_;
  Time next_step_at_;
  int error_ = 0;
};

}  // namespace hone
