#include "server/engine.h"

#include <utility>

#include "absl/status/status.h"

namespace hone {
namespace {

absl::Status DrainingError() { return absl::UnavailableError("the daemon is shutting down"); }

}  // namespace

EngineGate::~EngineGate() { Shutdown(); }

void EngineGate::WhenReady(absl::Time deadline, Use use) {
  if (Engine* engine = Get()) return use(engine);
  int64_t id = 0;
  {
    MutexLock lock(&mutex_);
    if (engine_ == nullptr && !shut_down_) {
      id = next_id_++;
      waiters_[id].use = std::move(use);
    }
  }
  if (id == 0) {
    if (Engine* engine = Get()) return use(engine);
    return use(DrainingError());
  }
  const int64_t timer = timer_->At(deadline, [this, id] {
    Use late;
    {
      MutexLock lock(&mutex_);
      const auto waiter = waiters_.find(id);
      if (waiter == waiters_.end()) return;
      late = std::move(waiter->second.use);
      waiters_.erase(waiter);
    }
    late(absl::DeadlineExceededError(
        "devices and compilers are still being probed; `hone status` shows when they are ready"));
  });
  MutexLock lock(&mutex_);
  const auto waiter = waiters_.find(id);
  if (waiter != waiters_.end()) waiter->second.timer = timer;
}

void EngineGate::Open(std::unique_ptr<Engine> engine) {
  std::map<int64_t, Waiter> waiters;
  Engine* opened = engine.get();
  {
    MutexLock lock(&mutex_);
    engine_ = std::move(engine);
    ready_.store(opened, std::memory_order_release);
    waiters.swap(waiters_);
  }
  for (auto& [id, waiter] : waiters) {
    timer_->Cancel(waiter.timer);
    waiter.use(opened);
  }
}

void EngineGate::Shutdown() {
  std::map<int64_t, Waiter> waiters;
  Engine* engine = nullptr;
  {
    MutexLock lock(&mutex_);
    if (std::exchange(shut_down_, true)) return;
    waiters.swap(waiters_);
    engine = engine_.get();
  }
  for (auto& [id, waiter] : waiters) {
    timer_->Cancel(waiter.timer);
    waiter.use(DrainingError());
  }
  if (engine != nullptr) engine->cache->Shutdown();
}

}  // namespace hone
