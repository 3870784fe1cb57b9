// Barriers, votes, shuffles and the ways to end a launch. Part of cuda_on_cpu.h.
#pragma once

namespace hone_cpu {

[[noreturn]] inline void Fail(const char* message, HoneCpuSite site) {
  runtime.trap(runtime.worker, message, site);
  __builtin_unreachable();
}

inline uint64_t Warp(uint32_t kind, uint32_t mask, uint64_t value, uint32_t lane,
                     HoneCpuSite site) {
  const HoneCpuWarpOperation operation{kind, mask, value, lane, site};
  return runtime.warp(runtime.worker, &operation);
}

inline uint32_t LinearThread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
inline uint32_t Lane() { return LinearThread() % 32; }

template <typename T>
uint64_t ToBits(const T& value) {
  static_assert(sizeof(T) <= 8, "at most 8 bytes can be exchanged between lanes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, static_cast<const void*>(&value), sizeof(T));
  return bits;
}

template <typename T>
T FromBits(uint64_t bits) {
  T value;
  __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

template <typename T>
T Shuffle(uint32_t mask, const T& value, uint32_t source, HoneCpuSite site) {
  return FromBits<T>(Warp(kHoneCpuShuffle, mask, ToBits(value), source, site));
}

inline void CheckWidth(int width, HoneCpuSite site) {
  if (width < 1 || width > 32 || (width & (width - 1)) != 0) {
    Fail("the width of a shuffle must be 1, 2, 4, 8, 16 or 32", site);
  }
}

}  // namespace hone_cpu

inline void __syncthreads(HONE_CPU_SITE_PARAMETERS) {
  hone_cpu::runtime.barrier(hone_cpu::runtime.worker, kHoneCpuSyncThreads, 0, HONE_CPU_SITE);
}
inline int __syncthreads_count(int predicate, HONE_CPU_SITE_PARAMETERS) {
  return static_cast<int>(hone_cpu::runtime.barrier(
      hone_cpu::runtime.worker, kHoneCpuSyncThreadsCount, predicate != 0, HONE_CPU_SITE));
}
inline int __syncthreads_and(int predicate, HONE_CPU_SITE_PARAMETERS) {
  return static_cast<int>(hone_cpu::runtime.barrier(
      hone_cpu::runtime.worker, kHoneCpuSyncThreadsAnd, predicate != 0, HONE_CPU_SITE));
}
inline int __syncthreads_or(int predicate, HONE_CPU_SITE_PARAMETERS) {
  return static_cast<int>(hone_cpu::runtime.barrier(hone_cpu::runtime.worker, kHoneCpuSyncThreadsOr,
                                                    predicate != 0, HONE_CPU_SITE));
}

inline void __syncwarp(unsigned mask = 0xffffffffu, HONE_CPU_SITE_PARAMETERS) {
  hone_cpu::Warp(kHoneCpuSyncWarp, mask, 0, 0, HONE_CPU_SITE);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, HONE_CPU_SITE_PARAMETERS) {
  return static_cast<unsigned>(
      hone_cpu::Warp(kHoneCpuBallot, mask, predicate != 0, 0, HONE_CPU_SITE));
}
inline int __any_sync(unsigned mask, int predicate, HONE_CPU_SITE_PARAMETERS) {
  return hone_cpu::Warp(kHoneCpuBallot, mask, predicate != 0, 0, HONE_CPU_SITE) != 0;
}
inline int __all_sync(unsigned mask, int predicate, HONE_CPU_SITE_PARAMETERS) {
  return hone_cpu::Warp(kHoneCpuBallot, mask, predicate == 0, 0, HONE_CPU_SITE) == 0;
}
inline unsigned __activemask(HONE_CPU_SITE_PARAMETERS) {
  return static_cast<unsigned>(
      hone_cpu::Warp(kHoneCpuActiveMask, 0xffffffffu, 0, 0, HONE_CPU_SITE));
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, HONE_CPU_SITE_PARAMETERS) {
  hone_cpu::CheckWidth(width, HONE_CPU_SITE);
  const unsigned lane = hone_cpu::Lane();
  const unsigned segment = lane & ~static_cast<unsigned>(width - 1);
  const unsigned from = segment + (static_cast<unsigned>(source) & (width - 1));
  return hone_cpu::Shuffle(mask, value, from, HONE_CPU_SITE);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, HONE_CPU_SITE_PARAMETERS) {
  hone_cpu::CheckWidth(width, HONE_CPU_SITE);
  const unsigned lane = hone_cpu::Lane();
  const unsigned place = lane & (width - 1);
  return hone_cpu::Shuffle(mask, value, place >= delta ? lane - delta : lane, HONE_CPU_SITE);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   HONE_CPU_SITE_PARAMETERS) {
  hone_cpu::CheckWidth(width, HONE_CPU_SITE);
  const unsigned lane = hone_cpu::Lane();
  const unsigned place = lane & (width - 1);
  const bool inside = delta < static_cast<unsigned>(width) - place;
  return hone_cpu::Shuffle(mask, value, inside ? lane + delta : lane, HONE_CPU_SITE);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, HONE_CPU_SITE_PARAMETERS) {
  hone_cpu::CheckWidth(width, HONE_CPU_SITE);
  const unsigned lane = hone_cpu::Lane();
  const unsigned from = lane ^ static_cast<unsigned>(lane_mask);
  // As on a GPU a lane of an earlier segment may be read, one of a later segment may not.
  const bool inside = from < (lane & ~static_cast<unsigned>(width - 1)) + width;
  return hone_cpu::Shuffle(mask, value, inside ? from : lane, HONE_CPU_SITE);
}

template <typename T>
unsigned __match_any_sync(unsigned mask, T value, HONE_CPU_SITE_PARAMETERS) {
  return static_cast<unsigned>(
      hone_cpu::Warp(kHoneCpuMatchAny, mask, hone_cpu::ToBits(value), 0, HONE_CPU_SITE));
}
template <typename T>
unsigned __match_all_sync(unsigned mask, T value, int* predicate, HONE_CPU_SITE_PARAMETERS) {
  const unsigned lanes = static_cast<unsigned>(
      hone_cpu::Warp(kHoneCpuMatchAll, mask, hone_cpu::ToBits(value), 0, HONE_CPU_SITE));
  *predicate = lanes != 0;
  return lanes;
}

#define HONE_CPU_REDUCE(name, type, kind)                                            \
  inline type name(unsigned mask, type value, HONE_CPU_SITE_PARAMETERS) {            \
    return static_cast<type>(                                                        \
        hone_cpu::Warp(kind, mask, static_cast<uint32_t>(value), 0, HONE_CPU_SITE)); \
  }
HONE_CPU_REDUCE(__reduce_add_sync, unsigned, kHoneCpuReduceAdd)
HONE_CPU_REDUCE(__reduce_add_sync, int, kHoneCpuReduceAdd)
HONE_CPU_REDUCE(__reduce_min_sync, unsigned, kHoneCpuReduceMinU)
HONE_CPU_REDUCE(__reduce_min_sync, int, kHoneCpuReduceMinS)
HONE_CPU_REDUCE(__reduce_max_sync, unsigned, kHoneCpuReduceMaxU)
HONE_CPU_REDUCE(__reduce_max_sync, int, kHoneCpuReduceMaxS)
HONE_CPU_REDUCE(__reduce_and_sync, unsigned, kHoneCpuReduceAnd)
HONE_CPU_REDUCE(__reduce_or_sync, unsigned, kHoneCpuReduceOr)
HONE_CPU_REDUCE(__reduce_xor_sync, unsigned, kHoneCpuReduceXor)
#undef HONE_CPU_REDUCE

[[noreturn]] inline void __trap(HONE_CPU_SITE_PARAMETERS) {
  hone_cpu::Fail("__trap was called", HONE_CPU_SITE);
}
[[noreturn]] inline void __brkpt(HONE_CPU_SITE_PARAMETERS) {
  hone_cpu::Fail("__brkpt was called", HONE_CPU_SITE);
}

// Also for a source that includes <assert.h>: its assert calls this name, and this hidden
// definition is the one that the module binds to.
extern "C" [[noreturn]] __attribute__((visibility("hidden"), weak)) void __assert_fail(
    const char* assertion, const char* file, unsigned line, const char*) noexcept(true) {
  char message[512];
  __builtin_snprintf(message, sizeof message, "assertion `%s' failed", assertion);
  hone_cpu::Fail(message, HoneCpuSite{file, line});
}
#ifndef assert
#define assert(condition) \
  ((condition) ? (void)0 : __assert_fail(#condition, __FILE__, __LINE__, __func__))
#endif
