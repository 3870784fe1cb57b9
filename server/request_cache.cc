#include "server/request_cache.h"

#include <utility>

#include "runtime/cache/answer_memory.h"

namespace hone {
namespace {

// Beyond what any real request for a kernel has; together the entries stay below 64 MiB.
constexpr size_t kRequestBytesKept = 4096;

int64_t KeptBytes(const RequestCache::Entry& entry) {
  return BinaryBytesOf(*entry.hit->answer.kernel);
}

}  // namespace

std::shared_ptr<const RequestCache::Entry> RequestCache::Find(const std::string& request) const {
  MutexLock lock(&mutex_);
  const auto it = entries_.find(request);
  return it == entries_.end() ? nullptr : it->second;
}

void RequestCache::Put(std::string request, Entry entry) {
  if (request.size() > kRequestBytesKept) return;
  auto shared = std::make_shared<const Entry>(std::move(entry));
  MutexLock lock(&mutex_);
  bytes_ += KeptBytes(*shared);
  if (const auto it = entries_.find(request); it != entries_.end()) {
    bytes_ -= KeptBytes(*it->second);
    it->second = std::move(shared);
  } else {
    entries_.emplace(request, std::move(shared));
    order_.push_back(std::move(request));
  }
  // The newest stays, whatever its size.
  while (order_.size() > entries_max_ || (bytes_ > bytes_max_ && order_.size() > 1)) {
    const auto oldest = entries_.find(order_.front());
    bytes_ -= KeptBytes(*oldest->second);
    entries_.erase(oldest);
    order_.pop_front();
  }
}

}  // namespace hone
