// Waiting work of many clients in a bounded queue in which no client can crowd out the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace hone {

// Clients take turns: however much one has waiting, another's first piece comes after one piece of
// each. A client may have as many pieces waiting as there is room left, so one alone gets half of
// the queue, and some room remains for whoever comes next. Not thread-safe: the owner's mutex
// guards it.
class FairQueue {
 public:
  explicit FairQueue(size_t items_max) : items_max_(items_max) {}

  // An id for Remove; nullopt when this client has its share already.
  std::optional<int64_t> Push(uint64_t client, std::function<void()> work);
  // The next client's oldest piece. REQUIRES: not empty.
  std::function<void()> Pop();
  // False when it is not there any more.
  bool Remove(int64_t id);
  void Clear();

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  size_t SizeOf(uint64_t client) const;

  // RESOURCE_EXHAUSTED (QUEUE_FULL) for a piece that was not taken. `what` is waiting: "compiles".
  absl::Status Full(uint64_t client, const std::string& what, absl::Duration retry_after) const;

 private:
  struct Item {
    int64_t id = 0;
    std::function<void()> work;
  };

  const size_t items_max_;
  size_t size_ = 0;
  int64_t next_id_ = 1;
  uint64_t last_served_ = 0;
  std::map<uint64_t, std::deque<Item>> clients_;  // without empty ones
};

}  // namespace hone
