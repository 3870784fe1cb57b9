// The kernels that a process launches, found without a lock and replaced only when it says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/hone/kernel.h"
#include "client/cpp/hone/kernel_request.h"
#include "client/cpp/kernel_outline.h"
#include "client/cpp/kernel_source.h"
#include "runtime/base/mutex.h"

namespace hone {

// One generation of a kernel. Immutable; lives as long as the cache.
struct ServedKernel {
  explicit ServedKernel(Kernel served);

  const Kernel kernel;
  const uint64_t generation;
  const KernelOutline outline;
};

class ServingCache;

// The place of one template and problem on one kind of device. Lives as long as the cache.
class ServingSlot {
 public:
  // What launches should use now; nullptr before the first Prepare. Never blocks: one atomic load.
  const ServedKernel* Find() const { return current_.load(std::memory_order_acquire); }

 private:
  friend class ServingCache;
  explicit ServingSlot(GetKernelOptions request) : request_(std::move(request)) {}

  const GetKernelOptions request_;
  std::atomic<const ServedKernel*> current_{nullptr};
  mutable Mutex mutex_;
  bool fetching_ ABSL_GUARDED_BY(mutex_) = false;
  // The newest that was announced for the template, whether it concerns this slot or not.
  uint64_t announced_ ABSL_GUARDED_BY(mutex_) = 0;
  // Every generation fetched, oldest first. None is freed: a captured graph may replay it.
  std::vector<std::unique_ptr<const ServedKernel>> generations_ ABSL_GUARDED_BY(mutex_);
  // While a pack answers: the daemon's key of this request, which may differ from the pack's; empty
  // until the daemon has answered.
  std::string daemon_key_ ABSL_GUARDED_BY(mutex_);
  // CUDA contexts in which the kernel was prepared, by their ids, with their handles.
  std::map<uint64_t, void*> contexts_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe. New generations are fetched and loaded as the daemon announces them, on threads of
// the cache's own, one for each kind of numerics, that start with the first kernel prepared of it;
// they are used after Refresh only. A
// daemon that goes away costs nothing but news: what was prepared stays, and the daemon is found
// again when it comes back. Where the source has a pack, the daemon is asked for what the pack
// answered as soon as it can be reached, on a thread that starts with the first such kernel; what
// it has is a new generation like any other, unless it is of a worse kind than the pack's (Source:
// a default, or a neighbour's winner where the pack has the problem's own). Not for use in a forked
// child, which needs one of its own.
class ServingCache {
 public:
  explicit ServingCache(std::unique_ptr<KernelSource> source);
  ~ServingCache();
  ServingCache(const ServingCache&) = delete;
  ServingCache& operator=(const ServingCache&) = delete;

  // The same slot for equal requests; max_wait and policy do not make a difference, the first
  // caller's are kept.
  ServingSlot* Slot(const GetKernelOptions& request);

  // The slot's kernel, loaded into the CUDA context that is current on this thread (kernels of the
  // CPU device need none). Asks the daemon if the slot is empty, waiting as long as the request
  // allows; of threads that ask at once one does. Errors of Client::GetKernel and Kernel::Prepare.
  absl::StatusOr<const ServedKernel*> Prepare(ServingSlot* slot);

  // The newest generation that is fetched and loaded; 0: none. Generations count changes of the
  // daemon's whole store, so that processes of one host can agree on one.
  uint64_t latest_generation() const { return latest_generation_.load(std::memory_order_acquire); }

  // From now on every slot answers with its newest generation up to `generation`, never with an
  // older one than before. Those that are not loaded in the current context yet are loaded first.
  // Returns how many slots changed. Not to be called while this thread captures a stream.
  absl::StatusOr<int> Refresh(uint64_t generation);

  // Calls `announce` with latest_generation() whenever it has grown, or kernels of a pack can be
  // replaced up to it, on a thread of the cache. nullptr: no more; when this returns, no call is
  // under way.
  void OnGeneration(std::function<void(uint64_t)> announce);

  // OK when the daemon answers, else why not, after one try of at most `timeout`.
  absl::Status Reach(absl::Duration timeout) { return source_->Reach(timeout); }

 private:
  // What asking the daemon again came to.
  struct Updated {
    bool reached = false;     // the daemon answered, be it with an error
    uint64_t generation = 0;  // fetched and loaded, but not announced; 0: none
    bool replaces_pack = false;
  };

  void Follow(v1::Numerics numerics);
  bool OnEvent(v1::Numerics numerics, const v1::WatchEvent& event);
  // The slot's kernel, asked for by one caller at a time while there is none.
  absl::StatusOr<const ServedKernel*> FetchOnce(ServingSlot* slot);
  // Fetches what the daemon has for the slot now.
  Updated Update(ServingSlot* slot, v1::Policy policy);
  // The same, announced.
  void UpdateAndAnnounce(ServingSlot* slot);
  void StartFollowing(v1::Numerics numerics);
  // Has the daemon asked for a slot that a pack answered, when it can be.
  void ReplaceLater(ServingSlot* slot);
  void ReplacePackKernels();
  bool closing() const;
  // `again`: even if it is not the newest.
  void Announce(uint64_t generation, bool again = false);

  const std::unique_ptr<KernelSource> source_;
  std::atomic<uint64_t> latest_generation_{0};
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<ServingSlot>> slots_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<v1::Numerics, std::thread> followers_ ABSL_GUARDED_BY(mutex_);
  // Answered by a pack, and the daemon was not asked since.
  std::vector<ServingSlot*> pack_answered_ ABSL_GUARDED_BY(mutex_);
  std::thread replacer_ ABSL_GUARDED_BY(mutex_);
  Mutex announce_mutex_;
  std::function<void(uint64_t)> announce_ ABSL_GUARDED_BY(announce_mutex_);
};

}  // namespace hone
