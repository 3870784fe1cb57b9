#include "client/cpp/rpc/rpc_channel.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/rpc/channel_engine.h"
#include "client/cpp/rpc/endpoint.h"
#include "client/cpp/rpc/message_reader.h"
#include "client/cpp/rpc/openssl_library.h"
#include "client/cpp/rpc/pending_call.h"
#include "client/cpp/rpc/tls_session.h"
#include "runtime/base/error_info.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// After a restart of the daemon the next try must not be far away.
constexpr std::chrono::milliseconds kReconnectFirst(100);
constexpr std::chrono::milliseconds kReconnectLast(1000);

// As the service config of client/cpp/channel.cc has it.
constexpr int kAttemptsMax = 5;
constexpr absl::Duration kRetryFirst = absl::Milliseconds(100);
constexpr absl::Duration kRetryLast = absl::Seconds(1);

constexpr absl::Duration kTcpKeepalive = absl::Minutes(5);

struct Attempt {
  CallEnd end;
  bool timed_out = false;
  bool delivered = false;  // the caller has acted on a message
};

Attempt RunAttempt(ChannelEngine& engine, PendingCall::Request request,
                   const RpcChannel::OnMessage& on_message) {
  const auto call = std::make_shared<PendingCall>(std::move(request));
  engine.Start(call);
  Attempt attempt;
  while (true) {
    PendingCall::News news = call->Next();
    if (news.end) {
      attempt.end = *std::move(news.end);
      return attempt;
    }
    if (!news.message) {
      engine.Cancel(call);
      attempt.timed_out = true;
      return attempt;
    }
    if (news.resume) engine.Resume(call);
    // A single reply is kept until the call has gone well.
    attempt.delivered = call->request.streaming;
    const bool go_on = on_message(*std::move(news.message));
    if (engine.owner() != getpid()) {
      attempt.end.status = absl::CancelledError("the process was forked within the call");
      return attempt;
    }
    if (!go_on) {
      engine.Cancel(call);
      attempt.end.status = absl::CancelledError("cancelled by the caller");
      return attempt;
    }
  }
}

bool MayRepeat(const Attempt& attempt, const RpcCallOptions& options) {
  if (attempt.delivered) return false;
  if (attempt.end.by == EndedBy::kNotSeen) return true;
  return options.retry && absl::IsUnavailable(attempt.end.status);
}

// When a daemon that is full asked the caller to come back; zero when it did not.
absl::Duration ComeBackAfter(const Attempt& attempt, const RpcCallOptions& options) {
  if (!options.retry || !options.come_back || attempt.delivered ||
      !absl::IsResourceExhausted(attempt.end.status)) {
    return absl::ZeroDuration();
  }
  const auto info = ErrorInfoOf(attempt.end.status);
  return absl::Milliseconds(info.has_value() ? info->retry_after_ms : 0);
}

// What the caller is told about an attempt that is not repeated.
absl::Status Explained(const CallEnd& end, const std::string& endpoint) {
  const bool lost = end.by == EndedBy::kNotSeen || end.by == EndedBy::kLost;
  if (!lost || !absl::IsUnavailable(end.status)) return end.status;
  // That nobody is there any more says more than that the connection was lost.
  const absl::Status diagnosis = ProbeEndpoint(endpoint);
  return diagnosis.ok() ? end.status : diagnosis;
}

absl::StatusOr<TlsOptions> TlsOf(const RpcChannelOptions& options, const OpenSslLibrary* library) {
  HONE_ASSIGN_OR_RETURN(HostPort where, ParseHostPort(options.endpoint));
  return TlsOptions{.library = library,
                    .ca_file = options.tls_ca_file,
                    .host = std::move(where.host),
                    .endpoint = options.endpoint};
}

// nullptr for plain text.
absl::StatusOr<const OpenSslLibrary*> PrepareTls(const RpcChannelOptions& options) {
  if (options.tls_ca_file.empty()) return nullptr;
  if (UnixPath(options.endpoint)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tls_ca_file '", options.tls_ca_file, "': the endpoint ", options.endpoint,
        " is a socket of this machine, where TLS is not spoken; leave tls_ca_file empty, or name "
        "an endpoint HOST:PORT"));
  }
  HONE_ASSIGN_OR_RETURN(const OpenSslLibrary* const library,
                        OpenSslLibrary::Get(options.tls_library));
  HONE_ASSIGN_OR_RETURN(const TlsOptions tls, TlsOf(options, library));
  HONE_RETURN_IF_ERROR(TlsSession::Check(tls));
  return library;
}

absl::Status TimedOut(const std::string& method, const std::string& endpoint, bool connected) {
  std::string text = absl::StrCat(method, " did not end by its deadline");
  if (!connected) absl::StrAppend(&text, "; ", Diagnose(endpoint).message());
  return absl::DeadlineExceededError(text);
}

}  // namespace

absl::Duration Jittered(absl::Duration pause) {
  const auto ticks =
      static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  // The low bits of the clock, spread over a word by a multiplication.
  const uint64_t mixed = (ticks * 0x9e3779b97f4a7c15u) >> 48;
  return pause * (0.8 + 0.4 * static_cast<double>(mixed) / 65536);
}

RpcChannel::RpcChannel(RpcChannelOptions options, const OpenSslLibrary* tls_library)
    : options_(std::move(options)), tls_library_(tls_library) {}

absl::StatusOr<std::unique_ptr<RpcChannel>> RpcChannel::Create(RpcChannelOptions options) {
  HONE_RETURN_IF_ERROR(CheckEndpoint(options.endpoint));
  if (options.message_bytes_max > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("message_bytes_max ", options.message_bytes_max,
                                                   ": a message has less than 4 GiB"));
  }
  HONE_ASSIGN_OR_RETURN(const OpenSslLibrary* const library, PrepareTls(options));
  return std::unique_ptr<RpcChannel>(new RpcChannel(std::move(options), library));
}

RpcChannel::~RpcChannel() {
  ChannelEngine* engine = engine_.load();
  if (engine == nullptr) return;
  if (engine->owner() == getpid()) {
    delete engine;
  } else {
    ChannelEngine::Abandon(engine);
  }
}

ChannelEngine* RpcChannel::NewEngine() const {
  const bool is_unix = UnixPath(options_.endpoint).has_value();
  ConnectionOptions connection{
      .endpoint = options_.endpoint,
      .authority = is_unix ? "localhost" : options_.endpoint,
      .user_agent = options_.user_agent,
      .settings_timeout = absl::ToChronoNanoseconds(options_.connect_timeout),
      .keepalive_timeout = absl::ToChronoNanoseconds(options_.keepalive_timeout)};
  if (tls_library_ != nullptr) connection.tls = *TlsOf(options_, tls_library_);  // parsed before
  const absl::Duration interval =
      options_.keepalive_interval.value_or(is_unix ? absl::InfiniteDuration() : kTcpKeepalive);
  if (interval != absl::InfiniteDuration()) {
    connection.keepalive_interval = absl::ToChronoNanoseconds(interval);
  }
  return new ChannelEngine({.connection = std::move(connection),
                            .connect_timeout = absl::ToChronoNanoseconds(options_.connect_timeout),
                            .reconnect_first = kReconnectFirst,
                            .reconnect_last = kReconnectLast});
}

ChannelEngine& RpcChannel::Engine() {
  ChannelEngine* engine = engine_.load(std::memory_order_acquire);
  // No mutex: another thread of the parent may have held it when this process was forked.
  while (engine == nullptr || engine->owner() != getpid()) {
    ChannelEngine* const fresh = NewEngine();
    ChannelEngine* const stale = engine;
    if (engine_.compare_exchange_strong(engine, fresh)) {
      if (stale != nullptr) ChannelEngine::Abandon(stale);
      return *fresh;
    }
    delete fresh;
  }
  return *engine;
}

absl::Status RpcChannel::Run(absl::string_view method, absl::string_view request,
                             const RpcCallOptions& options, bool streaming,
                             const OnMessage& on_message) {
  if (!absl::StartsWith(method, "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("method '", method, "' is not of the form /package.Service/Method"));
  }
  if (request.size() > options_.message_bytes_max) {
    return absl::ResourceExhaustedError(absl::StrCat("the request has ", request.size(),
                                                     " bytes; at most ", options_.message_bytes_max,
                                                     " may be sent"));
  }
  if (absl::Now() >= options.deadline) {
    return absl::DeadlineExceededError(
        absl::StrCat(method, " was called when its deadline had passed"));
  }
  PendingCall::Request call{.path = std::string(method),
                            .body = std::make_shared<const std::string>(FramedMessage(request)),
                            .deadline = options.deadline,
                            .message_bytes_max = options_.message_bytes_max,
                            .streaming = streaming};
  absl::Duration pause = kRetryFirst;
  absl::Status unreachable;  // why the last attempt found no connection
  int attempts = 0;
  while (true) {
    ChannelEngine& engine = Engine();
    const Attempt attempt = RunAttempt(engine, call, on_message);
    const bool late = absl::Now() >= options.deadline;
    // A daemon that keeps the deadline, too, may be the first to end the call.
    if (attempt.timed_out ||
        (late && absl::IsCancelled(attempt.end.status) && !attempt.delivered)) {
      const bool connected = engine.connected();
      if (!connected && !unreachable.ok()) return unreachable;
      return TimedOut(call.path, options_.endpoint, connected);
    }
    if (attempt.end.status.ok()) return attempt.end.status;
    // It comes back as often as it is asked to: the work of others ends at some time.
    if (const absl::Duration after = ComeBackAfter(attempt, options);
        after > absl::ZeroDuration()) {
      const absl::Duration wait = Jittered(after);
      if (absl::Now() + wait >= options.deadline) return attempt.end.status;
      absl::SleepFor(wait);
      continue;
    }
    if (++attempts == kAttemptsMax || !MayRepeat(attempt, options)) {
      return Explained(attempt.end, options_.endpoint);
    }
    if (attempt.end.by == EndedBy::kNoConnection) unreachable = attempt.end.status;
    // Nothing tells that a daemon which did not see the call is in trouble: it may be draining.
    const bool at_once = attempt.end.by == EndedBy::kNotSeen && attempts == 1;
    const absl::Duration wait = at_once ? absl::ZeroDuration() : Jittered(pause);
    if (absl::Now() + wait >= options.deadline) return Explained(attempt.end, options_.endpoint);
    absl::SleepFor(wait);
    if (!at_once) pause = std::min(2 * pause, kRetryLast);
    call.wait_for_connection = true;
  }
}

absl::StatusOr<std::string> RpcChannel::Call(absl::string_view method, absl::string_view request,
                                             const RpcCallOptions& options) {
  std::optional<std::string> reply;
  const auto keep = [&](std::string message) {
    reply = std::move(message);
    return true;
  };
  HONE_RETURN_IF_ERROR(Run(method, request, options, /*streaming=*/false, keep));
  if (!reply) {
    return absl::InternalError(absl::StrCat(method, ": the daemon said OK without a reply"));
  }
  return *std::move(reply);
}

absl::Status RpcChannel::Stream(absl::string_view method, absl::string_view request,
                                const RpcCallOptions& options, const OnMessage& on_message) {
  return Run(method, request, options, /*streaming=*/true, on_message);
}

absl::Status RpcChannel::WaitUntilConnected(absl::Duration timeout) {
  return Engine().WaitUntilConnected(absl::Now() + timeout, /*one_try=*/false);
}

absl::Status RpcChannel::TryToConnect(absl::Duration timeout) {
  return Engine().WaitUntilConnected(absl::Now() + timeout, /*one_try=*/true);
}

void RpcChannel::Shutdown() { Engine().Shutdown(); }

}  // namespace hone
