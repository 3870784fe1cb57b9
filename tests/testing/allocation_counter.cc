#include "tests/testing/allocation_counter.h"

#include <cstdlib>
#include <new>

namespace hone {
namespace {

thread_local int64_t allocations = 0;

void* Counted(size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

int64_t AllocationsOfThisThread() { return allocations; }

}  // namespace hone

// The aligned forms stay as they are: nothing here has types of larger alignment.
void* operator new(size_t bytes) { return hone::Counted(bytes); }
void* operator new[](size_t bytes) { return hone::Counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
