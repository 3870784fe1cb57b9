// Requests that nothing tuned answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/base/mutex.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/cache/resolved_request.h"
#include "runtime/store/kernel_store.h"

namespace hone {

std::string PolicyName(Policy policy);

// NOT_FOUND with the key that missed and what is tuned nearby.
absl::Status MissStatus(const ResolvedRequest& request, Policy policy, KernelStore& store);

// DEADLINE_EXCEEDED for a caller whose wait has ended while the work goes on.
absl::Status NotReadyStatus(absl::Duration waited);

// Counts them in memory and writes the counts to the store in batches, on a thread of its own: a
// request that is answered from memory is counted without touching the disk. Best effort: no answer
// depends on a count. Thread-safe.
class MissLog {
 public:
  MissLog(KernelStore* store, absl::Duration written_every);
  // Writes what is left.
  ~MissLog();

  // `identity` is request.Identity(), which callers have at hand.
  void Note(const std::string& identity, const ResolvedRequest& request, Policy policy,
            int64_t count);
  // Writes what was noted so far.
  absl::Status Write();

  // Requests noted since the start.
  int64_t noted() const { return noted_; }

 private:
  struct Entry {
    ResolvedRequest request;
    Policy policy = Policy::kBestAvailable;
    int64_t count = 0;
    int64_t last_at_unix_ms = 0;
  };
  void Loop();

  KernelStore* const store_;
  const absl::Duration written_every_;
  std::atomic<int64_t> noted_{0};
  Mutex mutex_;
  absl::flat_hash_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace hone
