// What a HOST_ELF kernel and its launcher know of each other. Included by both sides: by the
// launcher and, as text, by every program compiled for the CPU reference device. C++17, no
// dependencies.
//
// A module has one copy loaded per hardware thread, so its statics are what a block sees:
// threadIdx, shared memory and so on are plain variables with fixed addresses. Threads of a block
// run on one hardware thread.
#pragma once

#include <stdint.h>

// Bump when any struct below changes; the launcher refuses other versions.
#define HONE_CPU_ABI_VERSION 1

struct HoneCpuIndex {
  uint32_t x, y, z;
};

// Where in the source a thread waits; `file` and `line` are the user's.
struct HoneCpuSite {
  const char* file;
  uint32_t line;
};

enum HoneCpuBarrierKind : uint32_t {
  kHoneCpuSyncThreads = 0,
  kHoneCpuSyncThreadsCount = 1,
  kHoneCpuSyncThreadsAnd = 2,
  kHoneCpuSyncThreadsOr = 3,
};

enum HoneCpuWarpKind : uint32_t {
  kHoneCpuSyncWarp = 0,
  kHoneCpuShuffle = 1,    // `lane` is the source
  kHoneCpuBallot = 2,     // value != 0
  kHoneCpuMatchAny = 3,   // lanes with the same value
  kHoneCpuMatchAll = 4,   // mask or 0
  kHoneCpuReduceAdd = 5,  // of 32-bit values
  kHoneCpuReduceMinS = 6,
  kHoneCpuReduceMaxS = 7,
  kHoneCpuReduceMinU = 8,
  kHoneCpuReduceMaxU = 9,
  kHoneCpuReduceAnd = 10,
  kHoneCpuReduceOr = 11,
  kHoneCpuReduceXor = 12,
  kHoneCpuActiveMask = 13,  // the lanes that arrive at the same site
};

struct HoneCpuWarpOperation {
  uint32_t kind;
  uint32_t mask;
  uint64_t value;
  uint32_t lane;
  HoneCpuSite site;
};

// The launcher's side. Each call may switch to another thread of the block and returns when this
// one may go on.
struct HoneCpuRuntime {
  void* worker;
  uint32_t (*barrier)(void* worker, uint32_t kind, uint32_t predicate, HoneCpuSite site);
  uint64_t (*warp)(void* worker, const HoneCpuWarpOperation* operation);
  // Ends the launch with an error; does not return.
  void (*trap)(void* worker, const char* message, HoneCpuSite site);
};

// One kernel. `row` runs the threads of one row of a block from threadIdx.x = first up to the row's
// end; it looks at the end again after each thread, so that the launcher can end it early.
struct HoneCpuEntry {
  void (*row)(void* const* arguments, uint32_t first);
  uint32_t argument_count;
  const uint32_t* argument_bytes;
};

struct HoneCpuLaunch {
  HoneCpuIndex grid;
  HoneCpuIndex block;
  char* dynamic_shared;
  uint32_t dynamic_shared_bytes;
  HoneCpuRuntime runtime;
};

// Exported by every module as "hone_cpu_module"; entries are exported under their lowered names.
// The indices are reached through functions and not by address, so that a compiler which takes
// every pointer to alias every other still knows that a kernel's stores leave them alone.
struct HoneCpuModule {
  uint32_t abi_version;
  // 0: any x86-64 (or another architecture's baseline), 3: x86-64-v3.
  uint32_t isa_level;
  void (*set_launch)(const HoneCpuLaunch* launch);
  void (*set_block)(HoneCpuIndex block);
  void (*set_thread)(HoneCpuIndex thread);
  void (*set_row_end)(uint32_t end);
  HoneCpuIndex (*block)();
  HoneCpuIndex (*thread)();
};
