// The connection to a daemon, by gRPC. Why there is none: client/cpp/rpc/endpoint.h.
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

}  // namespace hone
