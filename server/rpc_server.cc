#include "server/rpc_server.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_posix.h"
#include "runtime/base/keep_grpc.h"
#include "server/logging.h"
#include "server/request_check.h"

namespace hone {
namespace {

// Streams of one connection; a client library needs a few, a front-end many.
constexpr int kStreamsPerConnectionMax = 1024;

// For the last replies to leave; calls that outlast it are cancelled.
constexpr std::chrono::milliseconds kFarewell(100);

// Clients may ping as often as they like, also while nothing is called (scenario P42): on a unix
// socket pings cost next to nothing, and a cut connection costs a client a kernel.
void AllowKeepalive(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

}  // namespace

RpcServer::RpcServer(ServiceContext& context, ConnectionTable& connections,
                     std::unique_ptr<UnixListener> listener)
    : context_(context),
      connections_(connections),
      service_(context),
      listener_(std::move(listener)) {}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    ServiceContext& context, ConnectionTable& connections, std::unique_ptr<UnixListener> listener) {
  KeepGrpc();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  std::unique_ptr<RpcServer> self(new RpcServer(context, connections, std::move(listener)));
  grpc::ServerBuilder builder;
  builder.RegisterService(&self->service_);
  builder.SetMaxReceiveMessageSize(kTransportBytesMax);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  AllowKeepalive(builder);
  // Reflection is the only service with threads of its own.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr) return absl::InternalError("gRPC did not start");
  self->server_->GetHealthCheckService()->SetServingStatus(v1::KernelService::service_full_name(),
                                                           true);
  self->listener_->Start([server = self.get()](int fd, const Credentials& credentials) {
    server->Serve(fd, credentials);
  });
  return self;
}

RpcServer::~RpcServer() { Drain(absl::ZeroDuration()); }

void RpcServer::Serve(int fd, const Credentials& credentials) {
  Caller caller{.credentials = credentials, .role = context_.roles.RoleOf(credentials)};
  const auto admitted = connections_.Admit(fd, caller);
  if (!admitted.ok()) {
    LogEvent("connection_refused")
        .Add("uid", static_cast<int64_t>(credentials.uid))
        .Add("reason", admitted.status().message())
        .Write(spdlog::level::warn);
    return;
  }
  LogEvent("connection")
      .Add("uid", static_cast<int64_t>(credentials.uid))
      .Add("pid", static_cast<int64_t>(credentials.pid))
      .Add("role", Name(caller.role))
      .Write(spdlog::level::debug);
  fcntl(*admitted, F_SETFL, fcntl(*admitted, F_GETFL) | O_NONBLOCK);
  grpc::AddInsecureChannelFromFd(server_.get(), *admitted);
}

void RpcServer::Drain(absl::Duration patience) {
  if (drained_.exchange(true) || server_ == nullptr) return;
  server_->GetHealthCheckService()->SetServingStatus(false);
  listener_->Stop();
  // gRPC is shut down last: from then on it cancels new calls of old connections, where the service
  // says UNAVAILABLE, which clients know how to take.
  service_.Drain(absl::Now() + std::max(patience, absl::ZeroDuration()));
  server_->Shutdown(std::chrono::system_clock::now() + kFarewell);
  server_->Wait();
}

}  // namespace hone
