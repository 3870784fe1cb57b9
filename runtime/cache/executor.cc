#include "runtime/cache/executor.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace hone {
namespace {

// Half of the queue's time is when there is room again; sooner than the first would be a busy loop,
// later than the second would leave a queue that has emptied idle.
constexpr absl::Duration kRetryAfterMin = absl::Milliseconds(100);
constexpr absl::Duration kRetryAfterMax = absl::Seconds(5);
// Weight of the latest piece of work in the mean.
constexpr double kLatest = 0.1;

}  // namespace

Executor::Executor(Options options)
    : options_(std::move(options)),
      urgent_(static_cast<size_t>(options_.queue_max)),
      patient_(static_cast<size_t>(options_.queue_max)) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Loop(); });
}

Executor::~Executor() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    urgent_.Clear();
    patient_.Clear();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Duration Executor::RetryAfter(size_t waiting) const {
  const absl::Duration half = mean_run_ * static_cast<double>(waiting) / (2.0 * options_.threads);
  return std::clamp(half, kRetryAfterMin, kRetryAfterMax);
}

absl::StatusOr<int64_t> Executor::Submit(Urgency urgency, uint64_t client,
                                         std::function<void()> work) {
  MutexLock lock(&mutex_);
  if (stopped_) return absl::UnavailableError("the daemon is shutting down; try again later");
  const bool urgent = urgency == Urgency::kUrgent;
  FairQueue& queue = urgent ? urgent_ : patient_;
  if (const auto id = queue.Push(client, std::move(work))) return urgent ? *id : -*id;
  return queue.Full(client, options_.what, RetryAfter(queue.size()));
}

bool Executor::Remove(int64_t id) {
  MutexLock lock(&mutex_);
  return id > 0 ? urgent_.Remove(id) : patient_.Remove(-id);
}

int64_t Executor::waiting() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(urgent_.size() + patient_.size());
}

void Executor::Loop() {
  while (true) {
    std::function<void()> work;
    bool patient = false;
    {
      MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Executor::HasWork));
      if (stopped_) return;
      patient = urgent_.empty();
      work = patient ? patient_.Pop() : urgent_.Pop();
      if (patient) ++patient_running_;
    }
    const absl::Time began = absl::Now();
    work();
    work = nullptr;
    MutexLock lock(&mutex_);
    if (patient) --patient_running_;
    mean_run_ += (absl::Now() - began - mean_run_) * kLatest;
  }
}

}  // namespace hone
