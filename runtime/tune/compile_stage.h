// Compile threads of one tune, ahead of its measuring lane.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"
#include "runtime/tune/candidate_builder.h"

namespace hone {

// Hands out configs to compile threads and their results to the lane.
class CompileStage {
 public:
  // Threads ask `next` for configs, one at a time, until it has none. `learning`: what `next` gives
  // depends on results, so threads stay close to the lane. `builder` must outlive this object.
  CompileStage(const CandidateBuilder& builder, std::function<std::optional<Config>()> next,
               int threads, bool learning);
  // Waits for the builds under way.
  ~CompileStage();

  // The next built candidate in any order, `first` before all others; nullopt at the end. An error
  // is the service's own and comes once. REQUIRES with `learning`: `first` is the first config.
  std::optional<absl::StatusOr<BuiltCandidate>> Pop(const std::optional<Config>& first);

 private:
  bool CanPop() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayPush() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work();

  const CandidateBuilder& builder_;
  const bool learning_;
  Mutex mutex_;
  std::function<std::optional<Config>()> next_ ABSL_GUARDED_BY(mutex_);
  std::deque<absl::StatusOr<BuiltCandidate>> ready_ ABSL_GUARDED_BY(mutex_);
  std::optional<Config> wanted_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace hone
