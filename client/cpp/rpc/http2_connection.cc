#include "client/cpp/rpc/http2_connection.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/rpc/endpoint.h"

namespace hone {
namespace {

// A reply of 256 KiB comes without a window update in between, and several at once do, too.
constexpr int32_t kStreamWindowBytes = 4 << 20;
constexpr int32_t kConnectionWindowBytes = 16 << 20;
// Fewer frames for large replies; the peer decides how much of it to use.
constexpr uint32_t kFrameBytesMax = 1 << 20;
// Of one reply's headers and trailers; the daemon's error texts are bounded far below it.
constexpr size_t kHeaderBytesMax = 64 << 10;
// Serialized ahead of the socket.
constexpr size_t kOutgoingBytes = 256 << 10;

nghttp2_nv Field(absl::string_view name, absl::string_view value) {
  // nghttp2 copies both.
  return {.name = reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          .value = reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())),
          .namelen = name.size(),
          .valuelen = value.size(),
          .flags = NGHTTP2_NV_FLAG_NONE};
}

absl::string_view View(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// How a server that speaks TLS begins its answer to what is not TLS: an alert of version 3.x.
constexpr absl::string_view kTlsAlert = "\x15\x03";

absl::Status NotInPlainText(const std::string& endpoint) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the daemon at ", endpoint,
      " speaks TLS on this port; name its authority in tls_ca_file (HONE_TLS_CA_FILE)"));
}

// nghttp2 fails here only for want of memory, as operator new does.
void Check(int result) {
  if (result != 0) std::abort();
}

}  // namespace

// nghttp2's callbacks, which find the connection in the user data.
struct Http2Callbacks {
  static Http2Connection& Self(void* user) { return *static_cast<Http2Connection*>(user); }

  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                      void* user) {
    PendingCall* call = Self(user).CallOf(frame->hd.stream_id);
    if (call == nullptr || frame->hd.type != NGHTTP2_HEADERS) return 0;
    ReplyHeaders& headers = call->exchange.headers;
    headers.Add(View(name, name_size), View(value, value_size));
    if (headers.size_bytes > kHeaderBytesMax) {
      Self(user).Reset(*call, {.status = absl::ResourceExhaustedError(absl::StrCat(
                                   "the reply's headers have more than ", kHeaderBytesMax,
                                   " bytes, which is what this client takes"))});
    }
    return 0;
  }

  static int OnDataChunk(nghttp2_session*, uint8_t, int32_t stream_id, const uint8_t* data,
                         size_t size, void* user) {
    Http2Connection& self = Self(user);
    nghttp2_session_consume_connection(self.session_, size);
    if (PendingCall* call = self.CallOf(stream_id)) self.OnData(*call, View(data, size));
    return 0;
  }

  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    Http2Connection& self = Self(user);
    if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
      self.established_ = true;
    }
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      if (PendingCall* call = self.CallOf(frame->hd.stream_id)) self.OnReplyEnd(*call);
    }
    return 0;
  }

  static int OnStreamClose(nghttp2_session*, int32_t stream_id, uint32_t error_code, void* user) {
    Self(user).OnStreamClose(stream_id, error_code);
    return 0;
  }

  static int OnError(nghttp2_session*, int, const char* text, size_t size, void* user) {
    Self(user).protocol_error_.assign(text, size);
    return 0;
  }

  static ssize_t ReadBody(nghttp2_session*, int32_t, uint8_t* buffer, size_t size,
                          uint32_t* data_flags, nghttp2_data_source* source, void*) {
    auto& call = *static_cast<PendingCall*>(source->ptr);
    const std::string& body = *call.request.body;
    size_t& sent = call.exchange.body_sent;
    const size_t count = std::min(size, body.size() - sent);
    std::memcpy(buffer, body.data() + sent, count);
    sent += count;
    if (sent == body.size()) *data_flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(count);
  }

  static nghttp2_session* NewSession(Http2Connection* self) {
    nghttp2_session_callbacks* callbacks = nullptr;
    Check(nghttp2_session_callbacks_new(&callbacks));
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnDataChunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
    nghttp2_session_callbacks_set_error_callback2(callbacks, OnError);
    nghttp2_option* option = nullptr;
    Check(nghttp2_option_new(&option));
    // A stream whose caller is slow must not fill the memory.
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session* session = nullptr;
    Check(nghttp2_session_client_new2(&session, callbacks, self, option));
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
  }
};

Http2Connection::Http2Connection(UniqueFd socket, std::unique_ptr<TlsSession> tls,
                                 const ConnectionOptions& options, SteadyTime now)
    : socket_(std::move(socket)),
      tls_(std::move(tls)),
      options_(options),
      session_(Http2Callbacks::NewSession(this)),
      opened_at_(now),
      heard_at_(now) {
  const std::array<nghttp2_settings_entry, 4> settings = {{
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindowBytes},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kFrameBytesMax},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kHeaderBytesMax},
  }};
  Check(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size()));
  Check(nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                              kConnectionWindowBytes));
}

Http2Connection::~Http2Connection() {
  nghttp2_session_del(session_);
  // A forked child may hold the socket, too; closing it here alone would leave the daemon with a
  // client that never speaks again.
  ::shutdown(socket_.get(), SHUT_RDWR);
}

PendingCall* Http2Connection::CallOf(int32_t stream_id) const {
  const auto found = streams_.find(stream_id);
  return found == streams_.end() ? nullptr : found->second.get();
}

bool Http2Connection::accepts_calls() const {
  return failure_.ok() && write_errno_ == 0 && nghttp2_session_check_request_allowed(session_) != 0;
}

void Http2Connection::Submit(const std::shared_ptr<PendingCall>& call) {
  const PendingCall::Request& request = call->request;
  std::string timeout;
  std::vector<nghttp2_nv> fields = {
      Field(":method", "POST"),
      Field(":scheme", tls_ != nullptr ? "https" : "http"),
      Field(":path", request.path),
      Field(":authority", options_.authority),
      Field("te", "trailers"),
      Field("content-type", "application/grpc"),
      Field("user-agent", options_.user_agent),
  };
  if (request.deadline != absl::InfiniteFuture()) {
    timeout = TimeoutHeader(request.deadline - absl::Now());
    fields.push_back(Field("grpc-timeout", timeout));
  }
  nghttp2_data_provider body{};
  body.source.ptr = call.get();
  body.read_callback = Http2Callbacks::ReadBody;
  const int32_t stream_id =
      nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(), &body, nullptr);
  if (stream_id < 0) {
    call->Finish({.status = absl::UnavailableError(
                      absl::StrCat("the connection to ", options_.endpoint,
                                   " takes no more calls: ", nghttp2_strerror(stream_id))),
                  .by = EndedBy::kNotSeen});
    return;
  }
  // The silence before a call is none of the daemon's.
  if (streams_.empty()) heard_at_ = std::max(heard_at_, std::chrono::steady_clock::now());
  call->exchange.stream_id = stream_id;
  call->exchange.connection = this;
  call->exchange.written_before = written_bytes_;
  streams_.emplace(stream_id, call);
}

void Http2Connection::Reset(PendingCall& call, CallEnd end) {
  call.Finish(std::move(end));
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, call.exchange.stream_id, NGHTTP2_CANCEL);
}

void Http2Connection::Cancel(PendingCall& call) {
  Reset(call, {.status = absl::CancelledError("cancelled by the caller")});
}

void Http2Connection::Resume(PendingCall& call) {
  nghttp2_session_consume_stream(session_, call.exchange.stream_id,
                                 std::exchange(call.exchange.withheld, 0));
}

void Http2Connection::OnData(PendingCall& call, absl::string_view bytes) {
  std::vector<std::string> messages;
  absl::Status fed =
      call.finished() ? absl::OkStatus() : call.exchange.reader.Feed(bytes, messages);
  call.exchange.messages += messages.size();
  if (fed.ok() && !call.request.streaming && call.exchange.messages > 1) {
    fed = absl::InternalError("the daemon sent more than one reply");
  }
  if (!fed.ok()) Reset(call, {.status = std::move(fed)});
  if (call.Deliver(std::move(messages))) {
    nghttp2_session_consume_stream(session_, call.exchange.stream_id, bytes.size());
  } else {
    call.exchange.withheld += bytes.size();
  }
}

void Http2Connection::OnReplyEnd(PendingCall& call) {
  absl::Status status = StatusOfReply(call.exchange.headers);
  if (status.ok() && call.exchange.reader.within_message()) {
    status = absl::InternalError("the reply ended within a message");
  }
  // A daemon that answers before it has read everything does not want the rest.
  if (call.exchange.body_sent < call.request.body->size()) {
    Reset(call, {.status = std::move(status)});
  } else {
    call.Finish({.status = std::move(status)});
  }
}

void Http2Connection::OnStreamClose(int32_t stream_id, uint32_t error_code) {
  const auto found = streams_.find(stream_id);
  if (found == streams_.end()) return;
  PendingCall& call = *found->second;
  call.exchange.connection = nullptr;
  // Refused by the peer, or by its GOAWAY, before any of it was processed.
  const bool refused = error_code == NGHTTP2_REFUSED_STREAM;
  call.Finish(
      {.status = StatusOfReset(error_code), .by = refused ? EndedBy::kNotSeen : EndedBy::kDaemon});
  streams_.erase(found);
}

void Http2Connection::Break(absl::Status failure) {
  if (failure_.ok()) failure_ = std::move(failure);
}

void Http2Connection::Serialize() {
  outgoing_.clear();
  outgoing_at_ = 0;
  std::string& serialized = tls_ != nullptr ? unencrypted_ : outgoing_;
  while (!within_handshake() && serialized.size() < kOutgoingBytes) {
    const uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &data);
    if (size < 0) {
      Break(absl::InternalError(absl::StrCat("HTTP/2 to ", options_.endpoint, ": ",
                                             nghttp2_strerror(static_cast<int>(size)))));
      return;
    }
    if (size == 0) break;
    serialized.append(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
  }
  if (tls_ == nullptr) return;
  if (!unencrypted_.empty()) {
    if (absl::Status sent = tls_->Send(unencrypted_); !sent.ok()) Break(std::move(sent));
  }
  tls_->TakeEncrypted(outgoing_);
}

void Http2Connection::Flush() {
  while (write_errno_ == 0 && failure_.ok()) {
    if (outgoing_.empty()) Serialize();
    if (outgoing_.empty()) return;
    const ssize_t count = send(socket_.get(), outgoing_.data() + outgoing_at_,
                               outgoing_.size() - outgoing_at_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        write_errno_ = errno;
        outgoing_.clear();
      }
      return;
    }
    if (!within_handshake()) written_bytes_ += static_cast<uint64_t>(count);
    outgoing_at_ += static_cast<size_t>(count);
    if (outgoing_at_ == outgoing_.size()) outgoing_.clear();
  }
}

bool Http2Connection::Parse(absl::string_view plain) {
  const ssize_t taken = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const uint8_t*>(plain.data()), plain.size());
  if (taken < 0) protocol_error_ = nghttp2_strerror(static_cast<int>(taken));
  return taken >= 0;
}

void Http2Connection::OnBytes(absl::string_view bytes, SteadyTime now) {
  heard_at_ = now;
  pinged_at_.reset();
  const bool first = !std::exchange(heard_, true);
  bool understood = true;
  if (tls_ != nullptr) {
    absl::Status received = tls_->Receive(
        bytes, [&](absl::string_view plain) { understood = understood && Parse(plain); });
    if (!received.ok()) {
      Flush();  // the peer is told why
      return Break(std::move(received));
    }
  } else if (first && absl::StartsWith(bytes, kTlsAlert)) {
    return Break(NotInPlainText(options_.endpoint));
  } else {
    understood = Parse(bytes);
  }
  Flush();
  if (tls_ != nullptr && tls_->ended()) return OnEnd(0);
  // After a violation the session only wants to say GOAWAY.
  if (understood && nghttp2_session_want_read(session_) != 0) return;
  if (protocol_error_.empty() && streams_.empty()) return;  // both sides are done
  const std::string why = protocol_error_.empty() ? "it ended the connection" : protocol_error_;
  if (established_) {
    Break(absl::UnavailableError(
        absl::StrCat("the daemon at ", options_.endpoint, " broke the protocol: ", why)));
  } else {
    Break(absl::UnavailableError(absl::StrCat("what listens at ", options_.endpoint,
                                              " is no hone daemon: it does not speak HTTP/2 (", why,
                                              ")")));
  }
}

void Http2Connection::OnEnd(int error) {
  if (within_handshake()) return Break(tls_->EndedEarly(error));
  std::string why = error == 0 ? "the daemon closed it" : std::strerror(error);
  if (!established_ && tls_ == nullptr && !UnixPath(options_.endpoint)) {
    absl::StrAppend(&why,
                    "; if it speaks TLS there, name its authority in tls_ca_file "
                    "(HONE_TLS_CA_FILE)");
  }
  Break(absl::UnavailableError(
      absl::StrCat("the connection to ", options_.endpoint,
                   established_ ? " was lost: " : " was lost before the daemon answered: ", why)));
}

void Http2Connection::OnTimer(SteadyTime now) {
  if (!established_) {
    if (now >= opened_at_ + options_.settings_timeout) {
      Break(within_handshake() ? tls_->TimedOut() : DiagnoseAttempt(options_.endpoint, 0));
    }
    return;
  }
  if (!options_.keepalive_interval || streams_.empty()) return;
  if (pinged_at_) {
    if (now < *pinged_at_ + options_.keepalive_timeout) return;
    Break(absl::UnavailableError(absl::StrCat("the daemon at ", options_.endpoint,
                                              " stopped answering: no reply to a ping")));
  } else if (now >= heard_at_ + *options_.keepalive_interval) {
    Check(nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr));
    pinged_at_ = now;
    Flush();
  }
}

SteadyTime Http2Connection::NextTimer() const {
  if (!established_) return opened_at_ + options_.settings_timeout;
  if (!options_.keepalive_interval || streams_.empty()) return SteadyTime::max();
  return pinged_at_ ? *pinged_at_ + options_.keepalive_timeout
                    : heard_at_ + *options_.keepalive_interval;
}

bool Http2Connection::finished() const {
  if (!failure_.ok()) return true;
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0 &&
         outgoing_.empty() && unencrypted_.empty();
}

void Http2Connection::FailCalls(const absl::Status& status) {
  for (const auto& [id, call] : streams_) {
    // Not a byte has left since the call came: nothing of it can have arrived.
    EndedBy by = EndedBy::kLost;
    if (written_bytes_ == call->exchange.written_before) by = EndedBy::kNotSeen;
    // The handshake is a part of connecting, so its failures are treated as those of connect().
    if (within_handshake()) by = EndedBy::kNoConnection;
    call->exchange.connection = nullptr;
    call->Finish({.status = OwnCopy(status), .by = by});
  }
  streams_.clear();
}

}  // namespace hone
