#include "client/cpp/rpc/endpoint.h"

#include <errno.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unique_fd.h"

namespace hone {
namespace {

constexpr absl::string_view kOtherEndpoint =
    "or name another endpoint with --endpoint or HONE_ENDPOINT";

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

absl::Status BadEndpoint(absl::string_view endpoint, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("endpoint '", endpoint, "'", what));
}

}  // namespace

std::optional<std::string> UnixPath(absl::string_view endpoint) {
  if (!absl::ConsumePrefix(&endpoint, "unix:")) return std::nullopt;
  absl::ConsumePrefix(&endpoint, "//");
  return std::string(endpoint);
}

absl::StatusOr<HostPort> ParseHostPort(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos || absl::StrContains(endpoint, '/')) {
    return BadEndpoint(endpoint, " is neither unix:PATH nor HOST:PORT");
  }
  HostPort parts{.host = endpoint.substr(0, colon), .port = endpoint.substr(colon + 1)};
  int port = 0;
  if (!absl::SimpleAtoi(parts.port, &port) || port < 1 || port > 65535) {
    return BadEndpoint(endpoint, ": the port is a number from 1 to 65535");
  }
  if (absl::StartsWith(parts.host, "[") && absl::EndsWith(parts.host, "]")) {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  } else if (absl::StrContains(parts.host, ':')) {
    return BadEndpoint(endpoint, ": an IPv6 address stands in brackets, as in [::1]:7433");
  }
  if (parts.host.empty()) return BadEndpoint(endpoint, ": the host is missing");
  return parts;
}

absl::Status CheckEndpoint(const std::string& endpoint) {
  const std::optional<std::string> path = UnixPath(endpoint);
  if (!path) return ParseHostPort(endpoint).status();
  const sockaddr_un address{};
  if (path->empty() || path->size() >= sizeof(address.sun_path)) {
    return BadEndpoint(endpoint, absl::StrCat(": a socket path has 1 to ",
                                              sizeof(address.sun_path) - 1, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status DiagnoseAttempt(const std::string& endpoint, int error) {
  if (const std::optional<std::string> path = UnixPath(endpoint)) return DiagnoseUnix(*path, error);
  return absl::UnavailableError(absl::StrCat("no hone daemon answers at ", endpoint,
                                             "; start it there with 'honed', ", kOtherEndpoint));
}

absl::Status Diagnose(const std::string& endpoint) {
  const std::optional<std::string> path = UnixPath(endpoint);
  return DiagnoseAttempt(endpoint, path ? TryConnect(*path) : 0);
}

absl::Status ProbeEndpoint(const std::string& endpoint) {
  HONE_RETURN_IF_ERROR(CheckEndpoint(endpoint));
  const std::optional<std::string> path = UnixPath(endpoint);
  if (!path) return absl::OkStatus();
  const int error = TryConnect(*path);
  return error == 0 ? absl::OkStatus() : DiagnoseUnix(*path, error);
}

}  // namespace hone
