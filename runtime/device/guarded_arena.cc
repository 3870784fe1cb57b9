#include "runtime/device/guarded_arena.h"

#include <algorithm>
#include <tuple>

#include "runtime/base/status_macros.h"

namespace hone {
namespace {

constexpr int64_t kPage = 4096;

// The least multiple of `alignment` at or above `from` that is no multiple of twice as much.
uint64_t PlaceAt(uint64_t from, int64_t alignment) {
  const auto step = static_cast<uint64_t>(alignment == 0 ? kPage : 2 * alignment);
  const uint64_t aligned = (from + step - 1) / step * step;
  if (alignment == 0) return aligned;
  const uint64_t half = static_cast<uint64_t>(alignment);
  return aligned >= half && aligned - half >= from ? aligned - half : aligned + half;
}

bool SameLayout(const std::vector<GuardedBuffer>& a, const std::vector<GuardedBuffer>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const GuardedBuffer& x, const GuardedBuffer& y) {
                      return std::tie(x.name, x.bytes, x.alignment, x.guard_value) ==
                             std::tie(y.name, y.bytes, y.alignment, y.guard_value);
                    });
}

}  // namespace

int64_t GuardedArena::BytesFor(const std::vector<GuardedBuffer>& buffers) {
  int64_t bytes = kPage;
  for (const GuardedBuffer& buffer : buffers) {
    bytes += 2 * kGuardBytes + buffer.bytes + std::max(kPage, 3 * buffer.alignment);
  }
  return bytes;
}

absl::Status GuardedArena::Place(const std::vector<GuardedBuffer>& buffers) {
  if (allocation_.bytes() > 0 && SameLayout(buffers, buffers_)) return absl::OkStatus();
  const int64_t needed = BytesFor(buffers);
  if (allocation_.bytes() < needed) {
    allocation_.Reset();
    buffers_.clear();
    HONE_ASSIGN_OR_RETURN(allocation_, memory_->Allocate(needed));
  }
  buffers_ = buffers;
  addresses_.clear();
  zones_.clear();
  uint64_t position = allocation_.address();
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const GuardedBuffer& buffer = buffers_[i];
    const uint64_t start = PlaceAt(position + static_cast<uint64_t>(kGuardBytes), buffer.alignment);
    const uint64_t end = start + static_cast<uint64_t>(buffer.bytes);
    addresses_[buffer.name] = start;
    const auto before = static_cast<int64_t>(start - position);
    zones_.push_back({{position, before, buffer.guard_value}, i, -before});
    zones_.push_back({{end, kGuardBytes, buffer.guard_value}, i, buffer.bytes});
    position = end + static_cast<uint64_t>(kGuardBytes);
  }
  return WriteGuards();
}

absl::Status GuardedArena::WriteGuards() {
  for (const Zone& zone : zones_) {
    HONE_RETURN_IF_ERROR(
        memory_->device()->Memset(zone.range.address, zone.range.value, zone.range.bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<GuardDamage>> GuardedArena::FindDamage() const {
  std::vector<ByteRange> ranges;
  for (const Zone& zone : zones_) ranges.push_back(zone.range);
  HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> found, memory_->device()->FindByteNotIn(ranges));
  for (size_t i = 0; i < zones_.size(); ++i) {
    if (found[i] < 0) continue;
    const GuardedBuffer& buffer = buffers_[zones_[i].buffer];
    return GuardDamage{buffer.name, buffer.bytes, zones_[i].offset + found[i]};
  }
  return std::nullopt;
}

}  // namespace hone
