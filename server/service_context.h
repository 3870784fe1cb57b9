// What the service's handlers share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/base/mutex.h"
#include "runtime/cache/deadline_timer.h"
#include "runtime/store/kernel_store.h"
#include "server/call.h"
#include "server/caller.h"
#include "server/catalog.h"
#include "server/engine.h"
#include "server/event_stream.h"
#include "server/reply_cache.h"
#include "server/request_cache.h"
#include "server/work_queue.h"

namespace hone {

// Grows when a message of the API changes meaning.
inline constexpr int kApiVersion = 1;

// Bounds of one call or of all calls together; what is beyond is refused with the bound named. Of
// calls and of streams one connection may have as many as are still free, so that none can take
// all; hits are answered whatever there is.
struct ServiceLimits {
  int calls_max = 4096;    // unary calls under way
  int streams_max = 1024;  // tunes watched, watches, downloads
  int64_t source_bytes_max = int64_t{1} << 20;
  int64_t headers_bytes_max = int64_t{8} << 20;
  int64_t header_set_bytes_max = int64_t{64} << 20;
  // Replies stay below the 4 MiB that clients accept by default.
  int64_t inline_bytes_max = int64_t{3} << 20;
  int64_t inline_bytes_default = 262'144;
  int64_t chunk_bytes = int64_t{1} << 20;
  absl::Duration compile_timeout = absl::Seconds(60);
  absl::Duration wait_default = absl::Seconds(30);
  absl::Duration wait_max = absl::Hours(1);
  absl::Duration heartbeat = absl::Seconds(1);  // clients are promised one every 2 s
};

// Facts for GetStatus that do not change.
struct ServiceInfo {
  std::string version;
  std::string store_path;
  std::string kernels_path;
  std::string listen;
  absl::Time started = absl::InfinitePast();
};

// Calls and streams under way. Thread-safe.
class CallsUnderWay {
 public:
  struct Present {
    int64_t all = 0;
    int64_t of_client = 0;
  };
  // How many there were before.
  Present Enter(uint64_t client) {
    MutexLock lock(&mutex_);
    return {count_++, of_client_[client]++};
  }
  void Leave(uint64_t client) {
    MutexLock lock(&mutex_);
    --count_;
    const auto it = of_client_.find(client);
    if (--it->second == 0) of_client_.erase(it);
  }
  int64_t count() const {
    MutexLock lock(&mutex_);
    return count_;
  }
  // Whether there are none by `deadline`.
  bool AwaitNone(absl::Time deadline) {
    MutexLock lock(&mutex_);
    return mutex_.AwaitWithDeadline(absl::Condition(this, &CallsUnderWay::None), deadline);
  }

 private:
  bool None() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ == 0; }
  mutable Mutex mutex_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, int64_t> of_client_ ABSL_GUARDED_BY(mutex_);
};

// Open streams, so that draining can end those without an end of their own. Thread-safe.
class OpenStreams {
 public:
  void Add(const std::shared_ptr<EventStream>& stream, uint64_t client, bool endless);
  void Remove(const EventStream* stream);
  void EndEndless(const absl::Status& status);
  int64_t count() const;
  CallsUnderWay::Present Count(uint64_t client) const;

 private:
  struct Open {
    std::weak_ptr<EventStream> stream;
    uint64_t client = 0;
    bool endless = false;
  };

  mutable Mutex mutex_;
  std::map<const EventStream*, Open> streams_ ABSL_GUARDED_BY(mutex_);
};

// Everything pointed to outlives the service. Thread-safe as its members are.
struct ServiceContext {
  Catalog* catalog = nullptr;
  KernelStore* store = nullptr;
  EngineGate* gate = nullptr;
  DeadlineTimer* timer = nullptr;
  const ConnectionTable* connections = nullptr;
  RolePolicy roles;
  WorkQueue* lookups = nullptr;   // reads and writes of the store
  WorkQueue* compiles = nullptr;  // raw compiles, which block while a worker compiles
  ServiceLimits limits;
  ServiceInfo info;

  std::atomic<bool> draining{false};
  CallsUnderWay calls;
  OpenStreams streams;
  ReplyCache replies{4096, int64_t{128} << 20};
  RequestCache requests{16'384, int64_t{128} << 20};
};

// Runs `work` on the look-up threads; a full queue is the call's answer. Work whose caller has gone
// in the meantime is left out.
template <class CallPtrType>
void RunLookup(ServiceContext& context, const CallPtrType& call, std::function<void()> work) {
  const absl::Status queued =
      context.lookups->Submit(call->caller().connection, [call, work = std::move(work)] {
        if (!call->cancelled()) work();
      });
  if (!queued.ok()) call->Fail(queued);
}

// The same once the engine is there.
template <class CallPtrType>
void WithEngine(ServiceContext& context, const CallPtrType& call,
                std::function<void(Engine&)> work) {
  const absl::Time deadline = absl::Now() + context.limits.wait_default;
  context.gate->WhenReady(deadline,
                          [&context, call, work = std::move(work)](absl::StatusOr<Engine*> engine) {
                            if (!engine.ok()) return call->Fail(engine.status());
                            RunLookup(context, call, [work, engine = *engine] { work(*engine); });
                          });
}

}  // namespace hone
