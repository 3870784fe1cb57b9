#include "client/cpp/channel.h"

#include <chrono>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/cpp/rpc/endpoint.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "runtime/base/keep_grpc.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// Replies carry artifacts only up to the inline limit, but a tuning's measurements or a template's
// files can pass gRPC's default of 4 MiB.
constexpr int kMessageBytesMax = 64 << 20;

// After a restart of the daemon the next try must not be far away.
constexpr int kReconnectFirstMs = 100;
constexpr int kReconnectMaxMs = 1000;
// How long one attempt may take (gRPC's name for it misleads); a refused one fails at once anyway.
constexpr int kConnectTimeoutMs = 5000;

// gRPC servers take more frequent pings for an attack (ENHANCE_YOUR_CALM) and close the connection.
constexpr int kKeepaliveMs = 5 * 60 * 1000;
constexpr int kKeepaliveTimeoutMs = 20 * 1000;

// Calls that may be repeated when a connection breaks or the daemon is full, which says with each
// refusal when to come back, or that this would not help (grpc-retry-pushback-ms). Tune streams
// events that were already seen, and registering is for the caller to repeat.
constexpr char kServiceConfig[] = R"({
  "methodConfig": [{
    "name": [
      {"service": "hone.v1.KernelService", "method": "GetKernel"},
      {"service": "hone.v1.KernelService", "method": "GetArtifact"},
      {"service": "hone.v1.KernelService", "method": "Compile"},
      {"service": "hone.v1.KernelService", "method": "ListTemplates"},
      {"service": "hone.v1.KernelService", "method": "DescribeTemplate"},
      {"service": "hone.v1.KernelService", "method": "ListHeaderSets"},
      {"service": "hone.v1.KernelService", "method": "ListTunings"},
      {"service": "hone.v1.KernelService", "method": "GetTuning"},
      {"service": "hone.v1.KernelService", "method": "ListMisses"},
      {"service": "hone.v1.KernelService", "method": "GetStatus"},
      {"service": "hone.v1.KernelService", "method": "ExplainKey"},
      {"service": "hone.v1.KernelService", "method": "GetLog"}
    ],
    "retryPolicy": {
      "maxAttempts": 5,
      "initialBackoff": "0.1s",
      "maxBackoff": "1s",
      "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]
    }
  }]
})";

grpc::ChannelArguments Arguments(bool is_unix) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  arguments.SetServiceConfigJSON(kServiceConfig);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectFirstMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  if (is_unix) {
    // A proxy for the web has no business with a local socket, but gRPC would ask it.
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  } else {
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  }
  return arguments;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const std::string& ca_file) {
  if (ca_file.empty()) return grpc::InsecureChannelCredentials();
  if (ca_file == kSystemAuthorities) return grpc::SslCredentials({});
  std::ifstream file(ca_file);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls_ca_file '", ca_file, "' cannot be read or is empty"));
  }
  return grpc::SslCredentials(
      {.pem_root_certs = text.str(), .pem_private_key = {}, .pem_cert_chain = {}});
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& endpoint,
                                                           const ClientOptions& options) {
  KeepGrpc();
  HONE_RETURN_IF_ERROR(CheckEndpoint(endpoint));
  HONE_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials,
                        Credentials(options.tls_ca_file));
  const bool is_unix = UnixPath(endpoint).has_value();
  return grpc::CreateCustomChannel(endpoint, credentials, Arguments(is_unix));
}

absl::Status WaitUntilConnected(grpc::Channel& channel, const std::string& endpoint,
                                absl::Duration timeout) {
  if (channel.GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) return absl::OkStatus();
  const auto deadline = std::chrono::system_clock::now() + absl::ToChronoMicroseconds(timeout);
  if (channel.WaitForConnected(deadline)) return absl::OkStatus();
  return Diagnose(endpoint);
}

}  // namespace hone
