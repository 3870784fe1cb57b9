// Memory with unmapped ranges around each allocation.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"

namespace hone {

// Every allocation lies alone between two ranges that fault: an access up to 4 GiB off, as a 32-bit
// byte offset gone wrong makes it, ends the process instead of hitting something else. Damage
// closer by is found by the profiler's guard zones. Not thread-safe.
class GuardedMemory {
 public:
  static constexpr int64_t kGuardBytes = int64_t{4} << 30;

  GuardedMemory() = default;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory();

  // Page-aligned and zeroed. Zero bytes are valid. RESOURCE_EXHAUSTED names needed and available.
  absl::StatusOr<uint64_t> Allocate(int64_t bytes);
  // REQUIRES: `address` is from Allocate and not freed.
  void Free(uint64_t address);
  // OK if [address, address + bytes) lies in one allocation; else INVALID_ARGUMENT.
  absl::Status Check(uint64_t address, int64_t bytes) const;

 private:
  struct Mapping {
    void* start = nullptr;
    int64_t mapped_bytes = 0;
    int64_t usable_bytes = 0;
  };
  std::map<uint64_t, Mapping> allocations_;
};

}  // namespace hone
