// Where a daemon listens and, when nobody answers there, why.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

// The path of "unix:PATH" and "unix:///PATH"; nullopt for other endpoints.
std::optional<std::string> UnixPath(absl::string_view endpoint);

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  std::string port;  // decimal, 1 to 65535
};

// The parts of HOST:PORT and [IPV6]:PORT; INVALID_ARGUMENT says what is wrong.
absl::StatusOr<HostPort> ParseHostPort(const std::string& endpoint);

// As a tls_ca_file: the authorities that the system trusts.
inline constexpr absl::string_view kSystemAuthorities = "system";

// INVALID_ARGUMENT for what is neither unix:PATH nor HOST:PORT.
absl::Status CheckEndpoint(const std::string& endpoint);

// Why nobody answers at `endpoint`, found by trying it once: UNAVAILABLE or, for a socket this user
// may not use, PERMISSION_DENIED. Says what was tried and what to do.
absl::Status Diagnose(const std::string& endpoint);

// The same for an attempt that was made already: `error` is its errno, or 0 if the connection was
// accepted and then nothing came.
absl::Status DiagnoseAttempt(const std::string& endpoint, int error);

// OK if something accepts connections at a unix endpoint now (or the endpoint is not unix), else
// Diagnose's answer. Takes no time: for tools that should not wait for a daemon nobody started.
absl::Status ProbeEndpoint(const std::string& endpoint);

}  // namespace hone
