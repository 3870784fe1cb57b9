// Several buffers in one allocation, each between guard zones that show writes outside of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/device/device_memory.h"

namespace hone {

struct GuardedBuffer {
  std::string name;
  int64_t bytes = 0;
  // 0: the start of a page. Otherwise the address is a multiple of this and of nothing above it, so
  // that code which assumes more meets an address where it fails.
  int64_t alignment = 0;
  // What the zones around this buffer are filled with. Inputs and outputs need different values:
  // a kernel copying past the end of both would otherwise repair the damage it does.
  int guard_value = 0;
};

struct GuardDamage {
  std::string name;
  int64_t bytes = 0;   // of the buffer
  int64_t offset = 0;  // of the first byte changed, from the buffer's start; negative: before it
};

// Move-only. Not thread-safe.
class GuardedArena {
 public:
  // Before and after every buffer: what a block of 1,024 threads overshoots with 64-byte accesses.
  static constexpr int64_t kGuardBytes = 64 << 10;

  // What Place allocates for these buffers.
  static int64_t BytesFor(const std::vector<GuardedBuffer>& buffers);

  explicit GuardedArena(DeviceMemory* memory) : memory_(memory) {}

  // Lays the buffers out, with a new allocation if the present one is too small, and writes the
  // guard zones. The contents of the buffers are undefined. Nothing is done if they lie so already.
  absl::Status Place(const std::vector<GuardedBuffer>& buffers);
  absl::Status WriteGuards();
  // The first damage in the order of the buffers.
  absl::StatusOr<std::optional<GuardDamage>> FindDamage() const;

  // REQUIRES: `name` was placed.
  uint64_t address(const std::string& name) const { return addresses_.at(name); }
  int64_t bytes() const { return allocation_.bytes(); }

 private:
  struct Zone {
    ByteRange range;
    size_t buffer = 0;
    int64_t offset = 0;  // of the zone's start from the buffer's
  };

  DeviceMemory* memory_;
  DeviceAllocation allocation_;
  std::vector<GuardedBuffer> buffers_;
  std::map<std::string, uint64_t> addresses_;
  std::vector<Zone> zones_;
};

}  // namespace hone
