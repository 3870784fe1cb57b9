#include "runtime/cpu/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "runtime/base/available_memory.h"

namespace hone {

GuardedMemory::~GuardedMemory() {
  for (const auto& [address, mapping] : allocations_) {
    munmap(mapping.start, static_cast<size_t>(mapping.mapped_bytes));
  }
}

absl::StatusOr<uint64_t> GuardedMemory::Allocate(int64_t bytes) {
  if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("allocation of ", bytes, " bytes"));
  const int64_t available = AvailableMemoryBytes();
  if (bytes > available) {
    return absl::ResourceExhaustedError(
        absl::StrCat("memory of the CPU device: needed ", bytes, " bytes, available ", available));
  }
  const int64_t page = sysconf(_SC_PAGESIZE);
  // An empty allocation has a page too, so that its address is unique.
  const int64_t usable = std::max<int64_t>((bytes + page - 1) / page, 1) * page;
  Mapping mapping{nullptr, usable + 2 * kGuardBytes, bytes};
  mapping.start = mmap(nullptr, static_cast<size_t>(mapping.mapped_bytes), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping.start == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("address space for ", mapping.mapped_bytes, " bytes (guards included)"));
  }
  char* data = static_cast<char*>(mapping.start) + kGuardBytes;
  if (mprotect(data, static_cast<size_t>(usable), PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping.start, static_cast<size_t>(mapping.mapped_bytes));
    return absl::ResourceExhaustedError(
        absl::StrCat("memory of the CPU device: needed ", bytes, " bytes, the system gives less"));
  }
  const auto address = reinterpret_cast<uint64_t>(data);
  allocations_[address] = mapping;
  return address;
}

void GuardedMemory::Free(uint64_t address) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return;
  munmap(found->second.start, static_cast<size_t>(found->second.mapped_bytes));
  allocations_.erase(found);
}

absl::Status GuardedMemory::Check(uint64_t address, int64_t bytes) const {
  auto above = allocations_.upper_bound(address);
  if (above != allocations_.begin()) {
    const auto& [start, mapping] = *std::prev(above);
    const auto offset = static_cast<int64_t>(address - start);
    if (bytes >= 0 && offset <= mapping.usable_bytes && bytes <= mapping.usable_bytes - offset) {
      return absl::OkStatus();
    }
  }
  if (bytes == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("range of ", bytes, " bytes at 0x", absl::Hex(address),
                   " does not lie in one allocation of the CPU device"));
}

}  // namespace hone
