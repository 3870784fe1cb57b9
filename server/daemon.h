// honed's parts, put together.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "runtime/cache/deadline_timer.h"
#include "runtime/store/kernel_store.h"
#include "server/catalog.h"
#include "server/config.h"
#include "server/engine.h"
#include "server/engine_builder.h"
#include "server/rpc_server.h"
#include "server/service_context.h"

namespace hone {

class Daemon {
 public:
  // Opens the store and the socket and serves; devices and compilers follow in the background.
  // Errors are for a person at a terminal; ExitCodeOf says how the process ends.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const DaemonConfig& config,
                                                       const std::string& version);
  ~Daemon();

  // Refuses new work, lets calls under way end within the drain timeout, stops tunes at the next
  // candidate and compiles at half the timeout. Blocks.
  void Drain();

 private:
  explicit Daemon(const DaemonConfig& config);
  absl::Status OpenStore();
  absl::Status Listen(const std::string& version);
  void StartEngine();

  const DaemonConfig config_;
  EngineOptions engine_options_;
  std::unique_ptr<KernelStore> store_;
  std::unique_ptr<Catalog> catalog_;
  DeadlineTimer timer_;
  ConnectionTable connections_;
  EngineGate gate_;
  ServiceContext context_;
  WorkQueue lookups_;
  WorkQueue compiles_;
  std::unique_ptr<RpcServer> server_;
  std::thread engine_thread_;
};

// kExitTemporary when another daemon owns the cache or the socket, kExitConfig otherwise.
int ExitCodeOf(const absl::Status& status);

}  // namespace hone
