#include "server/reply_cache.h"

#include "runtime/cache/answer_memory.h"

namespace hone {
namespace {

int64_t KeptBytes(const TunedKernel& kernel, const grpc::ByteBuffer& reply) {
  return static_cast<int64_t>(reply.Length()) + BinaryBytesOf(kernel);
}

}  // namespace

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
  const auto [it, added] = replies_.try_emplace(key, std::move(reply));
  if (!added) return;  // another call of the same kernel was quicker
  bytes_ += KeptBytes(*key.first, it->second);
  order_.push_back(std::move(key));
  // The newest stays, whatever its size.
  while (order_.size() > entries_max_ || (bytes_ > bytes_max_ && order_.size() > 1)) {
    const auto oldest = replies_.find(order_.front());
    bytes_ -= KeptBytes(*oldest->first.first, oldest->second);
    replies_.erase(oldest);
    order_.pop_front();
  }
}

}  // namespace hone
