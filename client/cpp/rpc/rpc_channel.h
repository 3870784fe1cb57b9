// Calls to a daemon in gRPC's protocol over HTTP/2, without gRPC.
//
//   HONE_ASSIGN_OR_RETURN(const auto channel, hone::RpcChannel::Create({.endpoint = endpoint}));
//   HONE_ASSIGN_OR_RETURN(const std::string reply,
//       channel->Call("/hone.v1.KernelService/GetKernel", request.SerializeAsString(),
//                     {.deadline = absl::Now() + absl::Seconds(30), .retry = true}));
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace hone {

class ChannelEngine;
struct OpenSslLibrary;

struct RpcChannelOptions {
  // "unix:PATH", "unix:///PATH" or "HOST:PORT" ("[::1]:7433").
  std::string endpoint{};
  // For HOST:PORT: the PEM file with the authorities that may have issued the daemon's certificate,
  // which must be for HOST and valid; "system" stands for those that the system trusts. Then the
  // connection is TLS 1.2 or 1.3 with HTTP/2 agreed on (ALPN), and each new one reads the file
  // anew. Empty: plain text, which everyone on the way can read and change.
  std::string tls_ca_file{};
  // OpenSSL 3, by a name for dlopen. Opened only where TLS is asked for.
  std::string tls_library = "libssl.so.3";
  std::string user_agent = "hone-client";
  // Of one request and of one message of a reply. At most 4 GiB - 1.
  size_t message_bytes_max = size_t{64} << 20;
  // For one address, and again for the daemon's first word on it, the handshake of TLS included.
  absl::Duration connect_timeout = absl::Seconds(5);
  // Silence while a call is outstanding after which the daemon is pinged; with no sign of it within
  // keepalive_timeout the connection counts as lost. nullopt: five minutes on TCP, never on a unix
  // socket, which tells when its other end dies.
  std::optional<absl::Duration> keepalive_interval{};
  absl::Duration keepalive_timeout = absl::Seconds(20);
};

struct RpcCallOptions {
  // The call ends by then, and the daemon is told.
  absl::Time deadline = absl::InfiniteFuture();
  // The call changes nothing that a second one would change again: UNAVAILABLE, from the daemon or
  // because it cannot be reached, is tried five times in all, 0.1 s apart and doubling up to 1 s;
  // RESOURCE_EXHAUSTED from a daemon that says when to come back is tried again then, until the
  // deadline. A call that the daemon certainly did not see is sent again in any case.
  bool retry = false;
  // False: whoever is asked to come back does so itself.
  bool come_back = true;
};

// `pause` give or take a fifth, so that the clients of a daemon do not all come back at once.
absl::Duration Jittered(absl::Duration pause);

// Thread-safe. All calls share one connection, which is made by the first and again after it was
// lost; one thread reads from it and is started by the first call, too.
//
// Errors of calls are the daemon's, with its ErrorInfo (see runtime/base/error_info.h), and
//  * UNAVAILABLE or PERMISSION_DENIED when it cannot be reached; the text says why and what to do
//  * FAILED_PRECONDITION when it cannot be spoken to as asked: its certificate was issued by nobody
//    of tls_ca_file, is for another host or has expired; one side speaks TLS and the other does not
//  * DEADLINE_EXCEEDED at the deadline, CANCELLED after Shutdown
//  * RESOURCE_EXHAUSTED for a message longer than message_bytes_max and for too many calls at once
//  * INTERNAL for a reply that breaks gRPC's protocol
//
// No environment variable has an influence, besides OpenSSL's own with TLS; no signal is raised or
// handled. A forked child may go on using a channel: it gets a connection of its own with its first
// call, and the parent's is not disturbed. Calls that other threads were in at the fork exist in
// the parent only.
class RpcChannel {
 public:
  // INVALID_ARGUMENT for an endpoint that cannot be one, and for a tls_ca_file without certificates
  // or for a unix socket; FAILED_PRECONDITION for TLS without OpenSSL. Does not connect.
  static absl::StatusOr<std::unique_ptr<RpcChannel>> Create(RpcChannelOptions options);
  // No call may be running.
  ~RpcChannel();
  RpcChannel(const RpcChannel&) = delete;
  RpcChannel& operator=(const RpcChannel&) = delete;

  const std::string& endpoint() const { return options_.endpoint; }

  // Sends `request` to `method` ("/package.Service/Method") and returns the reply's bytes.
  absl::StatusOr<std::string> Call(absl::string_view method, absl::string_view request,
                                   const RpcCallOptions& options = {});

  // Whether to go on. Called on the calling thread without locks; it may use the channel.
  using OnMessage = std::function<bool(std::string message)>;
  // As Call for a method that answers with many messages. When `on_message` returns false the
  // daemon is told and the result is CANCELLED. A slow `on_message` slows the daemon down. Nothing
  // is repeated after the first message.
  absl::Status Stream(absl::string_view method, absl::string_view request,
                      const RpcCallOptions& options, const OnMessage& on_message);

  // OK once a daemon has answered at the endpoint, at once if the connection stands. Else tries
  // until `timeout` and then says why not; PERMISSION_DENIED and FAILED_PRECONDITION come without
  // waiting.
  absl::Status WaitUntilConnected(absl::Duration timeout);

  // The same for callers who have something else to turn to: the first failed try is the answer,
  // and so is the last one's as long as the next is not due or has not been answered.
  absl::Status TryToConnect(absl::Duration timeout);

  // Ends what other threads are waiting for with CANCELLED, and refuses what comes after it; they
  // must still have returned before the channel is destructed.
  void Shutdown();

 private:
  RpcChannel(RpcChannelOptions options, const OpenSslLibrary* tls_library);

  // This process's engine; a forked child's first call makes it a new one.
  ChannelEngine& Engine();
  ChannelEngine* NewEngine() const;
  // A call with its repetitions.
  absl::Status Run(absl::string_view method, absl::string_view request,
                   const RpcCallOptions& options, bool streaming, const OnMessage& on_message);

  const RpcChannelOptions options_;
  const OpenSslLibrary* const tls_library_;  // nullptr: plain text
  std::atomic<ChannelEngine*> engine_{nullptr};
};

}  // namespace hone
