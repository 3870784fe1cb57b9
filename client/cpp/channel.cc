#include "client/cpp/channel.h"

#include <errno.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unique_fd.h"

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

// Calls that may be repeated when a connection breaks. Tune streams events that were already seen,
// and registering is for the caller to repeat.
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
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }]
})";

// The path of "unix:PATH" and "unix:///PATH"; nullopt for other endpoints.
std::optional<std::string> UnixPath(absl::string_view endpoint) {
  if (!absl::ConsumePrefix(&endpoint, "unix:")) return std::nullopt;
  absl::ConsumePrefix(&endpoint, "//");
  return std::string(endpoint);
}

absl::Status CheckEndpoint(const std::string& endpoint) {
  const std::optional<std::string> path = UnixPath(endpoint);
  const sockaddr_un address{};
  if (path && (path->empty() || path->size() >= sizeof(address.sun_path))) {
    return absl::InvalidArgumentError(absl::StrCat("endpoint '", endpoint,
                                                   "': a socket path has 1 to ",
                                                   sizeof(address.sun_path) - 1, " bytes"));
  }
  if (!path && (!absl::StrContains(endpoint, ':') || absl::StrContains(endpoint, '/'))) {
    return absl::InvalidArgumentError(
        absl::StrCat("endpoint '", endpoint, "' is neither unix:PATH nor HOST:PORT"));
  }
  return absl::OkStatus();
}

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

// 0 or the errno of one connection attempt.
int TryConnect(const std::string& path) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (connect(fd.get(), generic, sizeof(address)) == 0) return 0;
  return errno == EAGAIN ? 0 : errno;  // a full backlog is a live daemon
}

std::string GroupName(gid_t gid) {
  const group* entry = getgrgid(gid);
  return entry != nullptr ? std::string(entry->gr_name) : absl::StrCat(gid);
}

absl::Status NotPermitted(const std::string& path) {
  struct stat info {};
  std::string owner;
  if (stat(path.c_str(), &info) == 0) {
    owner = absl::StrFormat(" (mode %04o, owner uid %u, group %s)", info.st_mode & 07777u,
                            info.st_uid, GroupName(info.st_gid));
  }
  return absl::PermissionDeniedError(
      absl::StrCat("uid ", getuid(), " may not use the daemon's socket ", path, owner,
                   "; ask for membership in its group, or for honed --socket-mode"));
}

constexpr absl::string_view kOtherEndpoint =
    "or name another endpoint with --endpoint or HONE_ENDPOINT";

absl::Status DiagnoseUnix(const std::string& path, int error) {
  if (error == EACCES || error == EPERM) return NotPermitted(path);
  std::string why;
  if (error == ENOENT || error == ENOTDIR) {
    why = "there is no such socket; start the daemon with 'honed', ";
  } else if (error == ECONNREFUSED) {
    why = "nobody listens there any more; start the daemon again with 'honed', ";
  } else if (error == 0) {
    why = "it accepts the connection but does not answer; look at its log, ";
  } else {
    why = absl::StrCat(std::strerror(error), "; start the daemon with 'honed', ");
  }
  return absl::UnavailableError(
      absl::StrCat("no hone daemon at ", path, ": ", why, kOtherEndpoint));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& endpoint,
                                                           const ClientOptions& options) {
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

absl::Status Diagnose(const std::string& endpoint) {
  if (const std::optional<std::string> path = UnixPath(endpoint)) {
    return DiagnoseUnix(*path, TryConnect(*path));
  }
  return absl::UnavailableError(absl::StrCat("no hone daemon answers at ", endpoint,
                                             "; start it there with 'honed', ", kOtherEndpoint));
}

absl::Status ProbeEndpoint(const std::string& endpoint) {
  HONE_RETURN_IF_ERROR(CheckEndpoint(endpoint));
  const std::optional<std::string> path = UnixPath(endpoint);
  if (!path) return absl::OkStatus();
  const int error = TryConnect(*path);
  return error == 0 ? absl::OkStatus() : DiagnoseUnix(*path, error);
}

}  // namespace hone
