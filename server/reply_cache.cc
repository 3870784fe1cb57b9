#include "server/reply_cache.h"

namespace hone {

std::optional<grpc::ByteBuffer> ReplyCache::Find(const std::shared_ptr<const TunedKernel>& kernel,
                                                 int64_t inline_bytes_max) const {
  MutexLock lock(&mutex_);
  const auto it = replies_.find(Key{kernel, inline_bytes_max});
  if (it == replies_.end()) return std::nullopt;
  return it->second;
}

void ReplyCache::Put(std::shared_ptr<const TunedKernel> kernel, int64_t inline_bytes_max,
                     grpc::ByteBuffer reply) {
  Key key{std::move(kernel), inline_bytes_max};
  MutexLock lock(&mutex_);
  if (replies_.insert_or_assign(key, std::move(reply)).second) order_.push_back(std::move(key));
  while (order_.size() > entries_max_) {
    replies_.erase(order_.front());
    order_.pop_front();
  }
}

}  // namespace hone
