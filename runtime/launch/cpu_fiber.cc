#include "runtime/launch/cpu_fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#if defined(__SANITIZE_ADDRESS__)
#define HONE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HONE_ASAN 1
#endif
#endif
#ifdef HONE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef HONE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace hone {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::transfer_t;

constexpr size_t kPageBytes = 4096;
// A guard page below each stack. An odd number of pages apart, so that stacks do not all fall into
// the same cache sets.
constexpr size_t kStrideBytes = kFiberStackBytes + kPageBytes;
static_assert(kStrideBytes / kPageBytes % 2 == 1);

// Tops are staggered by cache lines for the same reason: hot frames of neighbours spread over L1.
size_t Colour(int index) { return static_cast<size_t>(index % 32) * 128; }

}  // namespace

FiberSet::~FiberSet() {
#ifdef HONE_TSAN
  for (Fiber& fiber : fibers_) {
    if (fiber.tsan_fiber != nullptr) __tsan_destroy_fiber(fiber.tsan_fiber);
  }
#endif
  if (region_ != nullptr) munmap(region_, region_bytes_);
}

absl::Status FiberSet::Reserve(int count) {
  if (!fibers_.empty()) return absl::OkStatus();
  const size_t bytes = kStrideBytes * static_cast<size_t>(count);
  void* region = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (region == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot reserve ", bytes, " bytes of address space for ", count,
                     " thread stacks; is there a limit on it (ulimit -v)?"));
  }
  region_ = static_cast<char*>(region);
  region_bytes_ = bytes;
  fibers_.resize(static_cast<size_t>(count));
  guarded_.resize(static_cast<size_t>(count));
  return absl::OkStatus();
}

Fiber& FiberSet::Start(int index, Main main, void* data) {
  const size_t slot = static_cast<size_t>(index);
  Fiber& fiber = fibers_[slot];
  if (!guarded_[slot]) {
    char* base = region_ + slot * kStrideBytes;
    // Best effort: past the system's limit on mappings an overflow goes unnoticed.
    (void)mprotect(base, kPageBytes, PROT_NONE);
    fiber.stack_bottom = base + kPageBytes;
    fiber.stack_bytes = kFiberStackBytes;
    guarded_[slot] = true;
#ifdef HONE_TSAN
    fiber.tsan_fiber = __tsan_create_fiber(0);
#endif
  }
  main_ = main;
  data_ = data;
  fiber.fake_stack = nullptr;
  char* top = fiber.stack_bottom + kFiberStackBytes - Colour(index);
  fiber.context = boost::context::detail::make_fcontext(
      top, static_cast<size_t>(top - fiber.stack_bottom), &FiberSet::Trampoline);
  return fiber;
}

HONE_NO_TSAN void FiberSet::Trampoline(transfer_t transfer) {
  FiberSet* set = static_cast<FiberSet*>(transfer.data);
  set->Arrived(*set->switched_to_, transfer);
  set->main_(set->data_);
  __builtin_unreachable();
}

void FiberSet::Arrived([[maybe_unused]] Fiber& self, transfer_t transfer) {
#ifdef HONE_ASAN
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(self.fake_stack, &bottom, &bytes);
  if (switched_from_ == host_ && host_ != nullptr && host_->stack_bottom == nullptr) {
    host_->stack_bottom = static_cast<char*>(const_cast<void*>(bottom));
    host_->stack_bytes = bytes;
  }
#endif
  if (switched_from_ != nullptr) switched_from_->context = transfer.fctx;
}

void FiberSet::Switch(Fiber& from, Fiber& to) {
  switched_from_ = &from;
  switched_to_ = &to;
#ifdef HONE_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack_bottom, to.stack_bytes);
#endif
#ifdef HONE_TSAN
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
  const transfer_t transfer = boost::context::detail::jump_fcontext(to.context, this);
  Arrived(from, transfer);
}

HONE_NO_TSAN void FiberSet::Leave(Fiber& to) {
  switched_from_ = nullptr;
  switched_to_ = &to;
#ifdef HONE_ASAN
  // Frames that will never return must not leave poison on a stack that is used again.
  __asan_handle_no_return();
  __sanitizer_start_switch_fiber(nullptr, to.stack_bottom, to.stack_bytes);
#endif
#ifdef HONE_TSAN
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
  boost::context::detail::jump_fcontext(to.context, this);
  __builtin_unreachable();
}

void FiberSet::Enter(Fiber& host) {
  host = Fiber();
  host_ = &host;
#ifdef HONE_TSAN
  host.tsan_fiber = __tsan_get_current_fiber();
#endif
}

void FiberSet::ForgetSuspended() {
#ifdef HONE_ASAN
  for (const Fiber& fiber : fibers_) {
    if (fiber.stack_bottom == nullptr) continue;
    __asan_unpoison_memory_region(fiber.stack_bottom, fiber.stack_bytes);
  }
#endif
#ifdef HONE_TSAN
  // Their shadow call stacks still hold the frames they were left in.
  for (Fiber& fiber : fibers_) {
    if (fiber.tsan_fiber == nullptr) continue;
    __tsan_destroy_fiber(fiber.tsan_fiber);
    fiber.tsan_fiber = __tsan_create_fiber(0);
  }
#endif
}

}  // namespace hone
