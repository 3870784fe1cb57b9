#include "runtime/base/fair_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"

namespace hone {

size_t FairQueue::SizeOf(uint64_t client) const {
  const auto it = clients_.find(client);
  return it == clients_.end() ? 0 : it->second.size();
}

std::optional<int64_t> FairQueue::Push(uint64_t client, std::function<void()> work) {
  if (SizeOf(client) >= items_max_ - size_) return std::nullopt;
  const int64_t id = next_id_++;
  clients_[client].push_back({id, std::move(work)});
  ++size_;
  return id;
}

std::function<void()> FairQueue::Pop() {
  auto it = clients_.upper_bound(last_served_);
  if (it == clients_.end()) it = clients_.begin();
  last_served_ = it->first;
  std::function<void()> work = std::move(it->second.front().work);
  it->second.pop_front();
  if (it->second.empty()) clients_.erase(it);
  --size_;
  return work;
}

bool FairQueue::Remove(int64_t id) {
  for (auto it = clients_.begin(); it != clients_.end(); ++it) {
    std::deque<Item>& items = it->second;
    const auto found =
        std::find_if(items.begin(), items.end(), [id](const Item& item) { return item.id == id; });
    if (found == items.end()) continue;
    items.erase(found);
    if (items.empty()) clients_.erase(it);
    --size_;
    return true;
  }
  return false;
}

void FairQueue::Clear() {
  clients_.clear();
  size_ = 0;
}

absl::Status FairQueue::Full(uint64_t client, const std::string& what,
                             absl::Duration retry_after) const {
  ErrorInfo info;
  info.reason = "QUEUE_FULL";
  info.needed = static_cast<int64_t>(size_ + 1);
  info.available = static_cast<int64_t>(items_max_);
  info.retry_after_ms = absl::ToInt64Milliseconds(retry_after);
  return WithErrorInfo(
      absl::ResourceExhaustedError(absl::StrCat(
          "the queue of waiting ", what, " holds ", size_, ", ", SizeOf(client),
          " of them of this connection; its limit is ", items_max_,
          ", and one connection may have no more waiting than there is room left; retry in ",
          absl::FormatDuration(retry_after))),
      info);
}

}  // namespace hone
