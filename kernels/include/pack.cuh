// Accesses of several elements at once, and what they ask of the caches.
#pragma once

// N elements that are loaded and stored together, in pieces of at most 16 bytes.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T values[N];
};

// The unsigned type of an access of that many bytes. Kernels that only move elements use it in their
// place: one code for all types of a size.
template <int BYTES>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = unsigned char;
};
template <>
struct WordOf<2> {
  using Type = unsigned short;
};
template <>
struct WordOf<4> {
  using Type = unsigned int;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};
template <int BYTES>
using Word = typename WordOf<BYTES>::Type;

// How an access treats the caches. Hints are for 16-byte accesses; others are plain.
enum Cache {
  kCachePlain = 0,
  kCacheNoAllocate = 1,  // loads leave no line in L1
  kCacheStreaming = 2,   // loads and stores are marked as touched once
};

// Of memory that nothing writes while the kernel runs.
template <int CACHE, typename Access>
__device__ inline Access Load(const Access* address) {
#if defined(__CUDA_ARCH__)
  if constexpr (CACHE != kCachePlain && sizeof(Access) == 16) {
    uint4 word;
    const uint4* const from = reinterpret_cast<const uint4*>(address);
    if constexpr (CACHE == kCacheNoAllocate) {
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                   : "l"(from));
    } else {
      word = __ldcs(from);
    }
    return *reinterpret_cast<const Access*>(&word);
  }
#endif
  return *address;
}

template <int CACHE, typename Access>
__device__ inline void Store(Access* address, const Access& access) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Access) == 16) {
    uint4* const to = reinterpret_cast<uint4*>(address);
    const uint4 word = *reinterpret_cast<const uint4*>(&access);
    if constexpr (CACHE == kCacheStreaming) {
      __stcs(to, word);
    } else {
      // Compilers take some plain ones apart.
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                   :
                   : "l"(to), "r"(word.x), "r"(word.y), "r"(word.z), "r"(word.w)
                   : "memory");
    }
    return;
  }
#endif
  *address = access;
}
