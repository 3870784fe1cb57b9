#include "runtime/cache/deadline_timer.h"

#include "absl/time/clock.h"

namespace hone {

DeadlineTimer::DeadlineTimer() : thread_([this] { Loop(); }) {}

DeadlineTimer::~DeadlineTimer() {
  {
    MutexLock lock(&mutex_);
    stopped_ = changed_ = true;
  }
  thread_.join();
}

int64_t DeadlineTimer::At(absl::Time time, std::function<void()> call) {
  MutexLock lock(&mutex_);
  const int64_t id = next_id_++;
  due_.emplace(Slot{time, id}, std::move(call));
  times_.emplace(id, time);
  changed_ = true;
  return id;
}

void DeadlineTimer::Cancel(int64_t id) {
  MutexLock lock(&mutex_);
  const auto it = times_.find(id);
  if (it == times_.end()) return;
  due_.erase(Slot{it->second, id});
  times_.erase(it);
}

void DeadlineTimer::Loop() {
  while (true) {
    std::function<void()> call;
    {
      MutexLock lock(&mutex_);
      const absl::Time next = due_.empty() ? absl::InfiniteFuture() : due_.begin()->first.first;
      if (!stopped_ && next > absl::Now()) {
        mutex_.AwaitWithDeadline(absl::Condition(&changed_), next);
      }
      changed_ = false;
      if (stopped_) return;
      if (due_.empty() || due_.begin()->first.first > absl::Now()) continue;
      call = std::move(due_.begin()->second);
      times_.erase(due_.begin()->first.second);
      due_.erase(due_.begin());
    }
    call();
  }
}

}  // namespace hone
