#include "runtime/compile/compile_queue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"

namespace hone {
namespace {

absl::Status Closed() { return absl::UnavailableError("the compile pool is shutting down"); }

}  // namespace

CompileQueue::CompileQueue(int slots, int waiting_max)
    : slots_(std::max(slots, 1)), waiting_max_(waiting_max) {}

bool CompileQueue::MayRun(CompilePriority priority) const {
  if (running_ >= slots_) return false;
  return priority != CompilePriority::kWarm || slots_ == 1 || running_warm_ < slots_ - 1;
}

int CompileQueue::WaitingAtLeast(CompilePriority priority) const {
  const auto end = waiters_.lower_bound({-static_cast<int>(priority) + 1, 0});
  return static_cast<int>(std::distance(waiters_.begin(), end));
}

void CompileQueue::Take(CompilePriority priority) {
  ++running_;
  if (priority == CompilePriority::kWarm) ++running_warm_;
}

void CompileQueue::AdmitWaiters() {
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    const auto priority = static_cast<CompilePriority>(-it->first.first);
    // Later ones have at most this priority and may run only if this one may.
    if (!MayRun(priority)) return;
    Take(priority);
    it->second->admitted = true;
    it = waiters_.erase(it);
  }
}

void CompileQueue::Reorder() {
  MutexLock lock(&mutex_);
  std::map<Order, Waiter*> ordered;
  for (const auto& [order, waiter] : waiters_) {
    if (waiter->urgency != nullptr) waiter->priority = waiter->urgency->priority();
    ordered.emplace(Order{-static_cast<int>(waiter->priority), order.second}, waiter);
  }
  waiters_.swap(ordered);
  AdmitWaiters();
}

absl::StatusOr<CompilePriority> CompileQueue::Acquire(CompilePriority priority,
                                                      CompileUrgency* urgency) {
  Waiter waiter{.priority = priority, .urgency = urgency};
  // A Raise takes effect through the value, which Wait reads under the lock, or through this.
  if (urgency != nullptr) urgency->OnRaise([this] { Reorder(); });
  const absl::Status status = Wait(waiter);
  if (urgency != nullptr) urgency->OnRaise(nullptr);
  if (!status.ok()) return status;
  return waiter.priority;
}

absl::Status CompileQueue::Wait(Waiter& waiter) {
  MutexLock lock(&mutex_);
  if (waiter.urgency != nullptr) waiter.priority = waiter.urgency->priority();
  if (closed_) return Closed();
  const int waiting = WaitingAtLeast(waiter.priority);
  if (waiting == 0 && MayRun(waiter.priority)) {
    Take(waiter.priority);
    return absl::OkStatus();
  }
  if (waiting >= waiting_max_) {
    ErrorInfo info;
    info.reason = "COMPILE_QUEUE_FULL";
    info.needed = waiting + 1;
    info.available = waiting_max_;
    info.retry_after_ms = 1000;
    return WithErrorInfo(
        absl::ResourceExhaustedError(absl::StrCat(waiting, " compiles wait already; the limit is ",
                                                  waiting_max_, "; try again later")),
        info);
  }
  waiters_.emplace(Order{-static_cast<int>(waiter.priority), next_sequence_++}, &waiter);
  const auto done = [&waiter] { return waiter.admitted || waiter.closed; };
  mutex_.Await(absl::Condition(&done));
  return waiter.admitted ? absl::OkStatus() : Closed();
}

void CompileQueue::Release(CompilePriority priority) {
  MutexLock lock(&mutex_);
  --running_;
  if (priority == CompilePriority::kWarm) --running_warm_;
  AdmitWaiters();
}

void CompileQueue::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  for (auto& [order, waiter] : waiters_) waiter->closed = true;
  waiters_.clear();
}

void CompileQueue::AwaitIdle() {
  MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return running_ == 0; };
  mutex_.Await(absl::Condition(&idle));
}

int CompileQueue::running() const {
  MutexLock lock(&mutex_);
  return running_;
}

int CompileQueue::waiting() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(waiters_.size());
}

}  // namespace hone
