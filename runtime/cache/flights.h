// Callers who want the same answer: answered together, each by its own time, or gone before.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/cache/resolved_request.h"

namespace hone {

// One caller's callback, called once whoever comes first: the answer, the deadline or the caller's
// own leaving.
class Waiter {
 public:
  explicit Waiter(KernelCache::Done done) : done_(std::move(done)) {}
  bool Answer(absl::StatusOr<KernelAnswer> answer) {
    if (answered_.exchange(true)) return false;
    // Not kept: it may hold whoever holds this waiter.
    const KernelCache::Done done = std::move(done_);
    done(std::move(answer));
    return true;
  }
  bool answered() const { return answered_; }

  int64_t timer_id = 0;            // of the deadline; set before the waiter is shared
  std::atomic<bool> noted{false};  // in the log of misses

 private:
  std::atomic<bool> answered_{false};
  KernelCache::Done done_;  // of whoever answers
};

// Who waits for which work. Work of which nobody wants the result is dropped while it is queued;
// once begun it goes on, and its result is kept. So it does when a caller was told that it would.
// Thread-safe; no callback runs under its lock.
class Flights {
 public:
  struct Flight {
    std::vector<std::shared_ptr<Waiter>> waiters;
    ResolvedRequest request;
    Policy policy = Policy::kBestAvailable;
  };
  using Unqueue = std::function<void()>;

  // True for the first of a flight, who starts the work.
  bool Join(const std::string& name, const ResolvedRequest& request, Policy policy,
            std::shared_ptr<Waiter> waiter);
  // Whether the flight is still there: else everyone has left, and its work is not to be done.
  bool Wanted(const std::string& name) const;
  // As Wanted; from now on the work is not dropped any more.
  bool Begin(const std::string& name);
  // To be called before a piece of the flight's work is queued: what was queued before is done.
  int64_t NewStage(const std::string& name);
  // How to take the piece of this stage out of its queue. Called at once if the flight has ended or
  // is further already: whoever runs the piece may be faster than whoever queued it.
  void SetUnqueue(const std::string& name, int64_t stage, Unqueue unqueue);
  // Takes out one who was answered by its deadline and told that the work goes on.
  void LeaveToItself(const std::string& name, const std::shared_ptr<Waiter>& waiter);
  // Takes out one who does not want the answer any more. What only it wanted is dropped.
  void Leave(const std::string& name, const std::shared_ptr<Waiter>& waiter);
  // Ends the flight, so that its waiters can be answered; nullopt when it has ended.
  std::optional<Flight> Take(const std::string& name);
  std::vector<std::string> Names() const;

  int64_t joined() const { return joined_; }
  int64_t dropped() const { return dropped_; }

 private:
  struct Entry {
    Flight flight;
    bool goes_on = false;  // whether or not somebody waits
    int64_t stage = 0;
    Unqueue unqueue;  // of that stage
  };
  // Returns whether `waiter` was in the flight.
  static bool Remove(Entry& entry, const std::shared_ptr<Waiter>& waiter);

  std::atomic<int64_t> joined_{0}, dropped_{0};
  mutable Mutex mutex_;
  int64_t last_stage_ ABSL_GUARDED_BY(mutex_) = 0;  // of all flights: a name may fly again
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
