// One HTTP/2 connection to a daemon and the calls on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cpp/rpc/pending_call.h"
#include "client/cpp/rpc/tls_session.h"
#include "runtime/base/unique_fd.h"

struct nghttp2_session;

namespace hone {

using SteadyTime = std::chrono::steady_clock::time_point;
using SteadyDuration = std::chrono::steady_clock::duration;

struct ConnectionOptions {
  std::string endpoint{};   // for texts
  std::string authority{};  // of requests
  std::string user_agent{};
  std::optional<TlsOptions> tls{};
  // From the connection to the peer's first SETTINGS, TLS's handshake included.
  SteadyDuration settings_timeout{};
  // Silence while a call is outstanding after which the peer is pinged; nullopt: never.
  std::optional<SteadyDuration> keepalive_interval{};
  SteadyDuration keepalive_timeout{};  // from a ping to anything at all
};

// Not thread-safe: the channel's engine holds its lock around every call, except that its I/O
// thread reads from socket() without it.
class Http2Connection {
 public:
  // `socket` is connected and does not block. Nothing is written before the first Flush. `tls` is
  // there if and only if options.tls is.
  Http2Connection(UniqueFd socket, std::unique_ptr<TlsSession> tls,
                  const ConnectionOptions& options, SteadyTime now);
  // Ends the connection for every process that has inherited its socket. No call is left on it.
  ~Http2Connection();
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  int socket() const { return socket_.get(); }

  // False once the peer has said GOAWAY, the connection is broken or its stream ids are used up.
  bool accepts_calls() const;
  // Requires accepts_calls(). The call is a stream of this connection until it has ended.
  void Submit(const std::shared_ptr<PendingCall>& call);
  // The caller waits no longer: the peer is told, whatever it still sends is dropped.
  void Cancel(PendingCall& call);
  // Gives the peer the window back that was withheld from a paused call.
  void Resume(PendingCall& call);
  size_t calls() const { return streams_.size(); }

  // Writes what there is until the socket takes no more.
  void Flush();
  bool wants_write() const { return !outgoing_.empty(); }
  // There is something for the channel's thread to do, which others must wake it for.
  bool wants_thread() const { return wants_write() || write_errno_ != 0 || !failure_.ok(); }
  // The errno with which writing failed, or 0. What the peer has sent before is still to be read.
  int write_error() const { return write_errno_; }

  void OnBytes(absl::string_view bytes, SteadyTime now);
  // The peer has closed, or reading failed with this errno.
  void OnEnd(int error);
  // Pings, and breaks the connection when SETTINGS or anything after a ping is late.
  void OnTimer(SteadyTime now);
  // When OnTimer has something to do; time_point::max() for never.
  SteadyTime NextTimer() const;

  // The peer has sent its SETTINGS: it is one that speaks HTTP/2.
  bool established() const { return established_; }
  // Nothing more comes: the connection is broken or both sides have ended it.
  bool finished() const;
  // Why it is broken, in the manner of Diagnose where it never was established.
  absl::Status failure() const { return failure_; }
  // Ends all its calls with `status`.
  void FailCalls(const absl::Status& status);

 private:
  friend struct Http2Callbacks;

  PendingCall* CallOf(int32_t stream_id) const;
  void OnData(PendingCall& call, absl::string_view bytes);
  void OnReplyEnd(PendingCall& call);
  void OnStreamClose(int32_t stream_id, uint32_t error_code);
  // Ends the call for its caller and resets its stream.
  void Reset(PendingCall& call, CallEnd end);
  // Moves what the session has to say to outgoing_.
  void Serialize();
  // Hands what the peer has sent, decrypted, to the session; false once that breaks its rules.
  bool Parse(absl::string_view plain);
  bool within_handshake() const { return tls_ != nullptr && !tls_->established(); }
  void Break(absl::Status failure);

  UniqueFd socket_;
  const std::unique_ptr<TlsSession> tls_;  // nullptr: plain text
  const ConnectionOptions options_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<int32_t, std::shared_ptr<PendingCall>> streams_;
  std::string unencrypted_;  // serialized, kept back by TLS
  std::string outgoing_;     // serialized, from outgoing_at_ on not written yet
  size_t outgoing_at_ = 0;
  uint64_t written_bytes_ = 0;  // without those of TLS's handshake
  bool heard_ = false;          // anything from the peer
  int write_errno_ = 0;
  bool established_ = false;
  std::string protocol_error_;  // nghttp2's words for the last one
  absl::Status failure_;
  SteadyTime opened_at_;
  SteadyTime heard_at_;
  std::optional<SteadyTime> pinged_at_;
};

}  // namespace hone
