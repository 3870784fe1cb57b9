// What tests of the transport have in common.
#pragma once

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/rpc/rpc_channel.h"

namespace hone {

inline constexpr char kMethod[] = "/s/M";  // scripted servers do not look at it
// For what should take no time at all, on a busy machine.
inline constexpr absl::Duration kLong = absl::Seconds(30);

inline RpcCallOptions Within(absl::Duration timeout, bool retry = false) {
  return {.deadline = absl::Now() + timeout, .retry = retry};
}

// Gives up soon on a server that says nothing.
inline std::unique_ptr<RpcChannel> ChannelTo(const std::string& endpoint) {
  return *RpcChannel::Create({.endpoint = endpoint, .connect_timeout = absl::Milliseconds(300)});
}

// Whether a call gets this reply; for threads and processes that cannot report more.
inline bool Answers(RpcChannel& channel, const std::string& reply) {
  const absl::StatusOr<std::string> result = channel.Call(kMethod, "request", Within(kLong));
  return result.ok() && *result == reply;
}

}  // namespace hone
