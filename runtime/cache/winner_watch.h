// Those who want to hear of new generations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/store/kernel_store.h"

namespace hone {

// Thread-safe.
class WinnerWatch {
 public:
  // `store` must outlive this object.
  explicit WinnerWatch(KernelStore* store) : store_(store) {}

  // See KernelCache::Watch. Blocks on the store while it tells the present generations.
  int64_t Add(std::string template_name, Numerics numerics, KernelCache::WatchListener listener);
  void Remove(int64_t id);

  // `numerics` nullopt: to all watchers of the template.
  void Announce(const std::string& key, const std::string& template_name, uint64_t generation,
                std::optional<Numerics> numerics);
  // A tune's winner, unless the key is pinned: then it is answered as before.
  void AnnounceWinner(const Winner& winner, const std::string& template_name);

 private:
  struct Watcher {
    std::string template_name;
    Numerics numerics;
    KernelCache::WatchListener listener;
  };

  KernelStore* const store_;
  Mutex mutex_;
  std::map<int64_t, Watcher> watchers_ ABSL_GUARDED_BY(mutex_);
  int64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace hone
