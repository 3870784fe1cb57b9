// Stacks and switches between them, with the hooks that both sanitizers need. Only the CPU launcher
// uses these.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/sanitizers.h"

// For functions that are entered and never returned from: ThreadSanitizer would keep their frames
// on the fiber's shadow call stack for ever.
#if defined(HONE_TSAN) || defined(__clang__)
#define HONE_NO_TSAN __attribute__((no_sanitize("thread")))
#else
#define HONE_NO_TSAN
#endif

namespace hone {

// As much as CUDA lets a thread have in local memory, and room for the launcher's own frames.
inline constexpr size_t kFiberStackBytes = (512 + 32) * 1024;

// One suspended or running flow of control. Plain data; a FiberSet or an OS thread owns the stack.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  char* stack_bottom = nullptr;  // lowest address
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
  void* tsan_fiber = nullptr;  // ThreadSanitizer's
};

// The fibers of one hardware thread. Not thread-safe; whoever switches is the thread that runs.
class FiberSet {
 public:
  using Main = void (*)(void* data);

  FiberSet() = default;
  FiberSet(const FiberSet&) = delete;
  FiberSet& operator=(const FiberSet&) = delete;
  ~FiberSet();

  // Reserves stacks for `count` fibers, once; memory is taken as it is touched. Each stack ends in
  // a page that faults. RESOURCE_EXHAUSTED when address space is short.
  absl::Status Reserve(int count);

  // Prepares fiber `index` to call main(data) when it is next switched to; main must not return.
  Fiber& Start(int index, Main main, void* data);

  // Suspends `from`, the running one, and runs `to`. Returns when somebody switches to `from`.
  void Switch(Fiber& from, Fiber& to);
  // Runs `to`; the running fiber is never resumed and its stack may be used again.
  [[noreturn]] void Leave(Fiber& to);

  // To be called first on the OS thread that will Switch away: notes its stack in `host`.
  void Enter(Fiber& host);
  // After fibers were left suspended for good: lets their stacks be used again.
  void ForgetSuspended();

 private:
  static void Trampoline(boost::context::detail::transfer_t transfer);
  void Arrived(Fiber& self, boost::context::detail::transfer_t transfer);

  char* region_ = nullptr;
  size_t region_bytes_ = 0;
  std::vector<Fiber> fibers_;
  std::vector<bool> guarded_;
  // Set by the one who switches, read by the one who arrives.
  Fiber* switched_from_ = nullptr;
  Fiber* switched_to_ = nullptr;
  Fiber* host_ = nullptr;
  Main main_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace hone
