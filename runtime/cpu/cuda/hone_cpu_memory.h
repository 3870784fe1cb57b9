// Loads and stores with cache hints (a CPU's caches need none), fences, clocks, address spaces.
// Part of cuda_on_cpu.h.
#pragma once

#define HONE_CPU_LOAD(name)         \
  template <typename T>             \
  inline T name(const T* address) { \
    return *address;                \
  }
HONE_CPU_LOAD(__ldg)
HONE_CPU_LOAD(__ldca)
HONE_CPU_LOAD(__ldcg)
HONE_CPU_LOAD(__ldcs)
HONE_CPU_LOAD(__ldlu)
HONE_CPU_LOAD(__ldcv)
#undef HONE_CPU_LOAD

#define HONE_CPU_STORE(name)                                  \
  template <typename T>                                       \
  inline void name(T* address, std::common_type_t<T> value) { \
    *address = value;                                         \
  }
HONE_CPU_STORE(__stwb)
HONE_CPU_STORE(__stcg)
HONE_CPU_STORE(__stcs)
HONE_CPU_STORE(__stwt)
#undef HONE_CPU_STORE

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#if defined(__x86_64__)
inline long long clock64() { return static_cast<long long>(__builtin_ia32_rdtsc()); }
#else
inline long long clock64() { return static_cast<long long>(__builtin_readcyclecounter()); }
#endif
// glibc's clock() has the same name and no arguments; kernels use clock64.
inline void __nanosleep(unsigned) {}

// All address spaces are one.
inline size_t __cvta_generic_to_shared(const void* address) {
  return reinterpret_cast<size_t>(address);
}
inline size_t __cvta_generic_to_global(const void* address) {
  return reinterpret_cast<size_t>(address);
}
inline void* __cvta_shared_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
inline void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
inline unsigned __isGlobal(const void* address) {
  const char* at = static_cast<const char*>(address);
  return at < hone_cpu::dynamic_shared ||
         at >= hone_cpu::dynamic_shared + hone_cpu::dynamic_shared_bytes;
}
