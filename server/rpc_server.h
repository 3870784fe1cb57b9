// The gRPC server: the service, health and reflection behind the unix listener.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"
#include "server/service.h"
#include "server/service_context.h"
#include "server/unix_listener.h"

namespace hone {

// Thread-safe.
class RpcServer {
 public:
  // Serves on `listener` from now on. `connections` is where `context` finds its callers; both
  // outlive the server.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(ServiceContext& context,
                                                          ConnectionTable& connections,
                                                          std::unique_ptr<UnixListener> listener);
  // Drains with no patience.
  ~RpcServer();

  // Health says NOT_SERVING, no connection is accepted and new calls are refused; calls under way
  // may take `patience`, then they are cancelled. Blocks; later calls do nothing.
  void Drain(absl::Duration patience);

  // For callers in this process: a connection as if it had come through the listener. Takes `fd`.
  void Serve(int fd, const Credentials& credentials);

 private:
  RpcServer(ServiceContext& context, ConnectionTable& connections,
            std::unique_ptr<UnixListener> listener);

  ServiceContext& context_;
  ConnectionTable& connections_;
  KernelServiceImpl service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<UnixListener> listener_;
  std::atomic<bool> drained_{false};
};

}  // namespace hone
