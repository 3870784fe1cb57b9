#include "runtime/cache/winner_watch.h"

#include <utility>

#include "runtime/cache/pins.h"

namespace hone {

int64_t WinnerWatch::Add(std::string template_name, Numerics numerics,
                         KernelCache::WatchListener listener) {
  // Present generations first; a winner decided meanwhile is announced twice rather than lost.
  int64_t id = 0;
  {
    MutexLock lock(&mutex_);
    id = next_id_++;
    watchers_[id] = {template_name, numerics, listener};
  }
  std::string token;
  do {
    const auto page = store_->ListTunings(template_name, 1000, token);
    if (!page.ok()) break;
    for (const TuningRecord& record : page->records) {
      const auto pin = store_->GetPin(record.key);
      const auto winner = store_->GetWinner(record.key, "", numerics);
      if (!pin.ok() || !winner.ok() || !*winner) continue;
      listener(record.key, record.template_name,
               ServedGeneration(*pin, (*winner)->generation, numerics));
    }
    token = page->next_page_token;
  } while (!token.empty());
  return id;
}

void WinnerWatch::Remove(int64_t id) {
  MutexLock lock(&mutex_);
  watchers_.erase(id);
}

void WinnerWatch::Announce(const std::string& key, const std::string& template_name,
                           uint64_t generation, std::optional<Numerics> numerics) {
  MutexLock lock(&mutex_);
  for (const auto& [id, watcher] : watchers_) {
    if (numerics && watcher.numerics != *numerics) continue;
    if (watcher.template_name.empty() || watcher.template_name == template_name) {
      watcher.listener(key, template_name, generation);
    }
  }
}

void WinnerWatch::AnnounceWinner(const Winner& winner, const std::string& template_name) {
  if (winner.numerics == Numerics::kWithinTolerance) {
    const auto pin = store_->GetPin(winner.tuning_key);
    if (pin.ok() && *pin && (*pin)->config) return;
  }
  Announce(winner.tuning_key, template_name, winner.generation, winner.numerics);
}

}  // namespace hone
