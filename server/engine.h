// What compiles and measures. It takes shape in the background after the socket is open: devices
// and compilers are probed by worker processes, and a daemon that waited for them would look dead.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/mutex.h"
#include "runtime/cache/caching_compiler.h"
#include "runtime/cache/deadline_timer.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/compiler.h"
#include "server/lane_monitor.h"

namespace hone {

// Members are destroyed from the last to the first.
struct Engine {
  std::unique_ptr<Compiler> pool;
  std::unique_ptr<CachingCompiler> compiler;
  std::unique_ptr<KernelCache> cache;
  // For GetStatus: why a device is not offered, headers that do not fit NVRTC, a missing sandbox.
  std::vector<std::string> warnings;
  std::vector<std::shared_ptr<LaneMonitor>> lanes;  // in the order of the cache's devices
  // Nothing but trusted sources may be compiled: no sandbox confines the compiler.
  bool catalog_only = false;
};

// Hands out the engine once it is there. Thread-safe.
class EngineGate {
 public:
  using Use = std::function<void(absl::StatusOr<Engine*>)>;

  // `timer` must outlive this object.
  explicit EngineGate(DeadlineTimer* timer) : timer_(timer) {}
  ~EngineGate();

  // Nullptr while it is being probed.
  Engine* Get() const { return ready_.load(std::memory_order_acquire); }
  // Calls `use` exactly once: at once if the engine is there, else when it is, or with
  // DEADLINE_EXCEEDED at `deadline`, or UNAVAILABLE at shutdown. `use` must not block.
  void WhenReady(absl::Time deadline, Use use);

  void Open(std::unique_ptr<Engine> engine);
  // Answers all who wait. The engine stays until this object ends.
  void Shutdown();

 private:
  struct Waiter {
    Use use;
    int64_t timer = 0;
  };

  DeadlineTimer* const timer_;
  std::atomic<Engine*> ready_{nullptr};
  Mutex mutex_;
  std::unique_ptr<Engine> engine_ ABSL_GUARDED_BY(mutex_);
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<int64_t, Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
