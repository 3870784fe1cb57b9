// Runs the blocks of one kernel launch on one hardware thread.
//
// Threads of a block are plain calls, one after the other, until one of them waits. From then on
// the rest of that block runs as fibers, each until it waits or ends: first the lanes of one warp,
// then the next warp. A block in which every thread left waits for something that cannot come is an
// error at once, not a hang.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/launch/cpu_abi.h"
#include "runtime/launch/cpu_fiber.h"

namespace hone {

// As an H200's: what a block may use, so that a template rejected there is rejected here.
inline constexpr uint32_t kCpuThreadsPerBlockMax = 1024;
inline constexpr uint32_t kCpuSharedBytesPerBlockMax = 232448;
inline constexpr uint32_t kCpuStaticSharedBytesMax = 48 * 1024;

// What all hardware threads of one launch share.
struct CpuGrid {
  HoneCpuIndex grid{1, 1, 1};
  HoneCpuIndex block{1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  void* const* arguments = nullptr;
  uint64_t blocks = 1;
  uint64_t blocks_per_turn = 1;
  std::atomic<uint64_t> next_block{0};
  std::atomic<bool> failed{false};
};

// Not thread-safe: one launch at a time.
class CpuBlockRunner {
 public:
  CpuBlockRunner() = default;
  CpuBlockRunner(const CpuBlockRunner&) = delete;
  CpuBlockRunner& operator=(const CpuBlockRunner&) = delete;
  ~CpuBlockRunner();

  // Takes blocks off the grid until none is left or another thread failed. `module` and `entry` are
  // the copy of this hardware thread. FAILED_PRECONDITION for threads that wait for ever or
  // exchange with absent lanes; ABORTED when the kernel called __trap or failed an assertion;
  // RESOURCE_EXHAUSTED without address space for stacks.
  absl::Status Run(CpuGrid& grid, const HoneCpuModule& module, const HoneCpuEntry& entry);

 private:
  static constexpr uint32_t kWarpsMax = kCpuThreadsPerBlockMax / 32;

  struct WarpState {
    uint32_t live = 0;   // lanes that have not ended
    uint32_t ready = 0;  // may run, or have not started
    uint32_t at_barrier = 0;
    uint32_t at_operation = 0;
  };
  struct BarrierState {
    uint32_t arrived = 0;
    uint32_t kind = 0;
    uint32_t predicates = 0;  // how many were true
    uint32_t result = 0;
    HoneCpuSite site{};
    uint32_t first_thread = 0;
  };

  // Entry points of the kernel's calls.
  static uint32_t OnBarrier(void* worker, uint32_t kind, uint32_t predicate, HoneCpuSite site);
  static uint64_t OnWarp(void* worker, const HoneCpuWarpOperation* operation);
  static void OnTrap(void* worker, const char* message, HoneCpuSite site);

  absl::Status Prepare();
  void RunBlocks();
  void RunBlock();
  static void RootMain(void* self);
  static void ThreadMain(void* self);

  uint32_t Barrier(uint32_t kind, uint32_t predicate, HoneCpuSite site);
  uint64_t Warp(const HoneCpuWarpOperation& operation);

  // The rest of the block, from the running thread on, becomes fibers.
  void BeginFibers();
  // After the thread on the root stack ended: runs the others to their end.
  void FinishBlock();
  // The running thread waits: runs others until it may go on.
  void Wait();
  void ThreadEnds();
  Fiber* NextFiber();
  void MakeReady(uint32_t warp, uint32_t lanes);
  void ReleaseBarrierIfComplete();
  void CompleteOperations(uint32_t warp);
  void CompleteOperation(uint32_t warp, uint32_t lanes);
  uint64_t ResultFor(uint32_t warp, uint32_t lane, uint32_t lanes);
  void CompleteActiveMask(uint32_t warp);

  std::string DescribeDeadlock() const;
  // Ends the launch with status_, from whatever fiber runs. Nothing on its stack is destroyed, so
  // callers hold nothing that owns memory.
  [[noreturn]] void Abandon();
  HoneCpuIndex IndexOf(uint32_t thread) const;
  std::string ThreadName(uint32_t thread) const;

  CpuGrid* grid_ = nullptr;
  HoneCpuModule module_{};
  HoneCpuEntry entry_{};
  absl::Status status_;
  char* shared_ = nullptr;  // mapping with a faulting page at its end

  FiberSet fibers_;
  Fiber host_;             // the OS thread
  Fiber* root_ = nullptr;  // runs plain threads; fiber 0 of the set

  uint32_t threads_ = 0;
  bool in_fibers_ = false;
  uint32_t running_ = 0;  // linear thread index; meaningful in fibers
  uint32_t root_thread_ = 0;
  uint32_t live_ = 0;
  uint32_t ready_warps_ = 0;
  BarrierState barrier_;
  std::array<WarpState, kWarpsMax> warps_{};
  std::vector<Fiber*> started_;                   // by thread; null: not yet
  std::vector<HoneCpuWarpOperation> operations_;  // by thread, while at_operation
  std::vector<uint64_t> results_;                 // by thread
};

}  // namespace hone
