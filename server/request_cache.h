// Requests that memory answered, by their bytes: a client that sends the same ones again is
// answered without their being read.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/mutex.h"
#include "runtime/cache/kernel_cache.h"

namespace hone {

// Thread-safe. Says what a request asks for, not that the answer still holds: KernelCache::Again
// and the catalog do. Beyond a bound the oldest entry goes; the answer's binaries count for it,
// because they are kept alive.
class RequestCache {
 public:
  struct Entry {
    // As the request names the template, and which one that was.
    std::string template_name;
    std::string template_digest;
    KernelTemplatePtr kernel_template;
    std::shared_ptr<const KernelCache::Hit> hit;
    int64_t inline_bytes_max = 0;
  };

  RequestCache(size_t entries_max, int64_t bytes_max)
      : entries_max_(entries_max), bytes_max_(bytes_max) {}

  // Nullptr if these bytes are not known.
  std::shared_ptr<const Entry> Find(const std::string& request) const;
  // Replaces what was known. Long requests are not kept.
  void Put(std::string request, Entry entry);

 private:
  const size_t entries_max_;
  const int64_t bytes_max_;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> order_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hone
