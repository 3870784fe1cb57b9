#include "client/cpp/rpc_kernel_source.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/kernel_assembly.h"
#include "client/cpp/rpc/endpoint.h"
#include "client/cpp/rpc/rpc_channel.h"
#include "runtime/base/default_paths.h"
#include "runtime/base/error_info.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

constexpr absl::string_view kGetKernel = "/hone.v1.KernelService/GetKernel";
constexpr absl::string_view kGetArtifact = "/hone.v1.KernelService/GetArtifact";
constexpr absl::string_view kGetStatus = "/hone.v1.KernelService/GetStatus";
constexpr absl::string_view kWatch = "/hone.v1.KernelService/Watch";

// On top of a request's max_wait: the daemon answers shortly after it, and the reply has to travel.
constexpr absl::Duration kAnswerMargin = absl::Seconds(10);
constexpr absl::Duration kArtifactTimeout = absl::Minutes(5);
constexpr absl::Duration kLookupTimeout = absl::Seconds(30);
// For which a daemon that did not answer is taken to go on so, where something else can answer.
constexpr absl::Duration kSilence = absl::Seconds(10);

// The API that this library speaks (GetStatusResponse.api_version).
constexpr int kApiVersion = 1;

template <class Message>
absl::StatusOr<Message> Parse(const std::string& bytes) {
  Message message;
  if (message.ParseFromString(bytes)) return message;
  return absl::InternalError(absl::StrCat("the daemon's reply of ", bytes.size(), " bytes is no ",
                                          std::string(Message::descriptor()->name())));
}

class RpcKernelSource : public KernelSource {
 public:
  RpcKernelSource(RpcKernelSourceOptions options, std::unique_ptr<RpcChannel> channel)
      : options_(std::move(options)), channel_(std::move(channel)) {}

  absl::StatusOr<Kernel> GetKernel(const GetKernelOptions& options) override {
    if (options_.has_fallback) {
      HONE_RETURN_IF_ERROR(NotSilent());
      HONE_RETURN_IF_ERROR(Reach(options_.connect_timeout));
    } else {
      HONE_RETURN_IF_ERROR(Connect());
    }
    const absl::Time deadline = absl::Now() + options.max_wait + kAnswerMargin;
    absl::StatusOr<Kernel> kernel = Ask(options, deadline);
    const absl::Status& status = kernel.status();
    const bool silent = absl::IsDeadlineExceeded(status) && absl::Now() >= deadline;
    const bool gone =
        absl::IsUnavailable(status) && !channel_->TryToConnect(absl::ZeroDuration()).ok();
    return silent || gone ? MarkUnreachable(status) : std::move(kernel);
  }

  absl::Status Watch(v1::Numerics numerics, const OnWatchEvent& on_event) override {
    HONE_RETURN_IF_ERROR(channel_->WaitUntilConnected(options_.connect_timeout));
    absl::Status handled;
    bool stopped = false;
    v1::WatchRequest request;
    request.set_numerics(numerics);
    const absl::Status status =
        channel_->Stream(kWatch, request.SerializeAsString(), {}, [&](const std::string& bytes) {
          const auto event = Parse<v1::WatchEvent>(bytes);
          handled = event.status();
          stopped = event.ok() && !on_event(*event);
          return event.ok() && !stopped;
        });
    if (stopped) return absl::OkStatus();
    return handled.ok() ? status : handled;
  }

  // Not only whether there is a connection: that of a daemon that has been stopped stands.
  absl::Status Reach(absl::Duration timeout) override {
    const absl::Time deadline = absl::Now() + timeout;
    absl::Status status = channel_->TryToConnect(timeout);
    bool dead = !status.ok();
    if (!dead) {
      status = Check(channel_->Call(kGetStatus, "", {.deadline = deadline}));
      dead = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    }
    const absl::Time now = absl::Now();
    silent_until_ns_ = dead && now >= deadline ? absl::ToUnixNanos(now + kSilence) : 0;
    return dead ? MarkUnreachable(std::move(status)) : status;
  }

  void Close() override { channel_->Shutdown(); }

 private:
  // Who has waited in vain for a daemon that hangs spares the next kernels that wait. It is asked
  // for all the same by whoever wants to know whether it is back (Reach).
  absl::Status NotSilent() const {
    if (absl::Now() >= absl::FromUnixNanos(silent_until_ns_)) return absl::OkStatus();
    return MarkUnreachable(absl::UnavailableError(
        absl::StrCat("the daemon at ", channel_->endpoint(), " did not answer a moment ago")));
  }

  absl::Status Connect() {
    absl::Status status = channel_->WaitUntilConnected(options_.connect_timeout);
    return status.ok() ? status : MarkUnreachable(std::move(status));
  }

  // Whether the daemon speaks what this library does (scenario P46).
  absl::Status Greet() {
    return Check(
        channel_->Call(kGetStatus, "", {.deadline = absl::Now() + kLookupTimeout, .retry = true}));
  }

  absl::Status Check(const absl::StatusOr<std::string>& reply) {
    HONE_ASSIGN_OR_RETURN(const std::string bytes, reply);
    HONE_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, Parse<v1::GetStatusResponse>(bytes));
    if (status.api_version() > kApiVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat("the daemon at ", channel_->endpoint(), " (honed ", status.version(),
                       ") speaks API version ", status.api_version(), ", this library only ",
                       kApiVersion, "; update libhone"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Kernel> Ask(const GetKernelOptions& options, absl::Time deadline) {
    absl::StatusOr<std::string> bytes = AskOnce(options, deadline);
    // A daemon that is full may say when to come back. The wait until then is part of max_wait.
    const absl::Time until = deadline - kAnswerMargin;
    for (GetKernelOptions again = options; absl::IsResourceExhausted(bytes.status());) {
      const auto info = ErrorInfoOf(bytes.status());
      if (!info.has_value() || info->retry_after_ms == 0) break;
      const absl::Time then = absl::Now() + Jittered(absl::Milliseconds(info->retry_after_ms));
      if (then >= until) break;
      absl::SleepFor(then - absl::Now());
      again.max_wait = std::max(until - absl::Now(), absl::Milliseconds(1));
      bytes = AskOnce(again, deadline);
    }
    // A daemon that understands something else by the request says no more than that it is wrong.
    if (absl::IsInvalidArgument(bytes.status()) || absl::IsUnimplemented(bytes.status())) {
      HONE_RETURN_IF_ERROR(Greet());
    }
    HONE_RETURN_IF_ERROR(bytes.status());
    HONE_ASSIGN_OR_RETURN(v1::GetKernelResponse response, Parse<v1::GetKernelResponse>(*bytes));
    if (response.api_version() > kApiVersion) HONE_RETURN_IF_ERROR(Greet());
    return AssembleKernel(
        std::move(response), [this](const std::string& sha256) { return FetchArtifact(sha256); },
        options_.enable_cpu_device);
  }

  absl::StatusOr<std::string> AskOnce(const GetKernelOptions& options, absl::Time deadline) {
    return channel_->Call(kGetKernel, ToProto(options).SerializeAsString(),
                          {.deadline = deadline, .retry = true, .come_back = false});
  }

  absl::StatusOr<std::string> FetchArtifact(const std::string& sha256) {
    v1::GetArtifactRequest request;
    request.set_sha256(sha256);
    ArtifactAssembly assembly(sha256);
    absl::Status parsed;
    const absl::Status status = channel_->Stream(
        kGetArtifact, request.SerializeAsString(), {.deadline = absl::Now() + kArtifactTimeout},
        [&](const std::string& bytes) {
          const auto chunk = Parse<v1::ArtifactChunk>(bytes);
          parsed = chunk.status();
          if (chunk.ok()) assembly.Add(*chunk);
          return chunk.ok();
        });
    HONE_RETURN_IF_ERROR(parsed);
    HONE_RETURN_IF_ERROR(status);
    HONE_ASSIGN_OR_RETURN(FetchedArtifact fetched, std::move(assembly).Finish());
    return std::move(fetched.bytes);
  }

  const RpcKernelSourceOptions options_;
  const std::unique_ptr<RpcChannel> channel_;
  std::atomic<int64_t> silent_until_ns_{0};  // Unix time
};

}  // namespace

absl::StatusOr<std::unique_ptr<KernelSource>> MakeRpcKernelSource(RpcKernelSourceOptions options) {
  if (options.endpoint.empty()) options.endpoint = DefaultEndpoint();
  if (options.tls_ca_file.empty() && !UnixPath(options.endpoint)) {
    options.tls_ca_file = DefaultTlsCaFile();
  }
  HONE_ASSIGN_OR_RETURN(
      std::unique_ptr<RpcChannel> channel,
      RpcChannel::Create({.endpoint = options.endpoint, .tls_ca_file = options.tls_ca_file}));
  return std::unique_ptr<KernelSource>(
      std::make_unique<RpcKernelSource>(std::move(options), std::move(channel)));
}

}  // namespace hone
