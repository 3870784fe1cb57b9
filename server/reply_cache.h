// Encoded replies of kernels that memory holds: a hit is sent without being built or serialised
// again.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "grpcpp/support/byte_buffer.h"
#include "runtime/base/mutex.h"
#include "runtime/kernel/tuned_kernel.h"

namespace hone {

// Thread-safe. Keyed by the kernel object itself, which is immutable and kept alive here, so that
// its address cannot come to mean another; a new winner is a new object. Beyond a bound the oldest
// entry goes; a kernel's binaries count for it, because they are kept alive.
class ReplyCache {
 public:
  ReplyCache(size_t entries_max, int64_t bytes_max)
      : entries_max_(entries_max), bytes_max_(bytes_max) {}

  // Copies share the bytes. `inline_bytes_max` as the request gave it: it decides what is in the
  // reply.
  std::optional<grpc::ByteBuffer> Find(const std::shared_ptr<const TunedKernel>& kernel,
                                       int64_t inline_bytes_max) const;
  void Put(std::shared_ptr<const TunedKernel> kernel, int64_t inline_bytes_max,
           grpc::ByteBuffer reply);

 private:
  using Key = std::pair<std::shared_ptr<const TunedKernel>, int64_t>;

  const size_t entries_max_;
  const int64_t bytes_max_;
  mutable Mutex mutex_;
  absl::flat_hash_map<Key, grpc::ByteBuffer> replies_ ABSL_GUARDED_BY(mutex_);
  std::deque<Key> order_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hone
