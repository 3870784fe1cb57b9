// The daemon as a source of kernels.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/kernel_source.h"
#include "client/cpp/rpc/rpc_channel.h"

namespace hone {

struct RpcKernelSourceOptions {
  std::string endpoint{};  // empty: DefaultEndpoint()
  // How long a call waits for a daemon that cannot be reached.
  absl::Duration connect_timeout = absl::Seconds(5);
  bool enable_cpu_device = false;
  // Something else can answer: a daemon that is not there is told of after the first try, and
  // whether it is alive is asked before each kernel, so that one that has stopped is waited for no
  // longer than connect_timeout.
  bool has_fallback = false;
  // As RpcChannelOptions has it. Empty: DefaultTlsCaFile(), unless the endpoint is a unix socket.
  std::string tls_ca_file{};
};

// As RpcChannel::Create. Does not connect.
absl::StatusOr<std::unique_ptr<KernelSource>> MakeRpcKernelSource(RpcKernelSourceOptions options);

}  // namespace hone
