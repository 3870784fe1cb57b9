// The connection to a daemon: how it is made and, when it cannot be, why.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/hone/client.h"
#include "grpcpp/channel.h"

namespace hone {

// INVALID_ARGUMENT for an endpoint or certificate file that cannot be one. Does not connect.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& endpoint,
                                                           const ClientOptions& options);

// OK once the channel is connected; else, after `timeout`, what Diagnose says.
absl::Status WaitUntilConnected(grpc::Channel& channel, const std::string& endpoint,
                                absl::Duration timeout);

// Why nobody answers at `endpoint`, found by trying it once: UNAVAILABLE or, for a socket this user
// may not use, PERMISSION_DENIED. Says what was tried and what to do.
absl::Status Diagnose(const std::string& endpoint);

// OK if something accepts connections at a unix endpoint now (or the endpoint is not unix), else
// Diagnose's answer. Takes no time: for tools that should not wait for a daemon nobody started.
absl::Status ProbeEndpoint(const std::string& endpoint);

}  // namespace hone
