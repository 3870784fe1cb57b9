#include "runtime/cache/tune_run.h"

namespace hone {

TuneRunImpl::TuneRunImpl(std::string key, ResolvedRequest request, TuneOptions options)
    : key_(std::move(key)), request_(std::move(request)), options_(std::move(options)) {}

int64_t TuneRunImpl::Subscribe(Listener listener) {
  MutexLock lock(&delivery_mutex_);
  for (const Event& event : events_) listener(event);
  const int64_t id = next_id_++;
  had_subscriber_ = true;
  if (!finished_) listeners_.emplace(id, std::move(listener));
  return id;
}

void TuneRunImpl::Unsubscribe(int64_t id) {
  MutexLock lock(&delivery_mutex_);
  listeners_.erase(id);
  if (listeners_.empty() && had_subscriber_ && !detached_) cancelled_ = true;
}

bool TuneRunImpl::finished() const {
  MutexLock lock(&delivery_mutex_);
  return finished_;
}

void TuneRunImpl::Detach() {
  MutexLock lock(&delivery_mutex_);
  detached_ = true;
}

void TuneRunImpl::Cancel() {
  MutexLock lock(&delivery_mutex_);
  cancelled_ = true;
}

bool TuneRunImpl::cancelled() const {
  MutexLock lock(&delivery_mutex_);
  return cancelled_;
}

void TuneRunImpl::Publish(Event event) {
  MutexLock lock(&delivery_mutex_);
  const bool last = event.kind == Event::Kind::kFinished;
  for (const auto& [id, listener] : listeners_) listener(event);
  // Progress says something about a moment; replaying it would tell nothing.
  if (event.kind != Event::Kind::kProgress) events_.push_back(std::move(event));
  if (last) {
    finished_ = true;
    listeners_.clear();
  }
}

}  // namespace hone
