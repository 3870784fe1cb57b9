// Accesses of several elements at once, what they ask of the caches, and elements made of floats.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

// How an access treats the caches. Hints are for pieces of 16 bytes; others are plain.
enum Cache {
  kCachePlain = 0,
  kCacheNoAllocate = 1,  // loads leave no line in L1
  // Loads stay in the level-2 cache as long as can be, and what is stored leaves it first. Rows that
  // are read twice are found there, and those read once arrive some 3 % faster beside the stores.
  kCacheLevel2 = 2,
  kCacheLevel2Last = 3,  // loads for the last time, after which the line leaves first
  kCacheStreaming = 4,   // loads and stores are marked as touched once
};

// For the last read of what was read with CACHE.
template <int CACHE>
constexpr int kLastOf = CACHE == kCacheLevel2 ? kCacheLevel2Last : CACHE;

// The policy of the level-2 cache for all lines of an access.
template <bool FIRST>
__device__ inline unsigned long long EvictionPolicy() {
  unsigned long long policy = 0;
#if defined(__CUDA_ARCH__)
  if constexpr (FIRST) {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  } else {
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  }
#endif
  return policy;
}

#if defined(__CUDA_ARCH__)
// Written out for 8 and 16 bytes, because compilers take plain accesses apart and do not always put
// them together again. These stay in the order in which they are written down. Loads are not of the
// kind for memory that nothing writes (.nc): results may go where inputs were.
template <int CACHE>
__device__ inline uint4 LoadPiece(const uint4* from) {
  uint4 word;
  if constexpr (CACHE == kCacheNoAllocate) {
    asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(from));
  } else if constexpr (CACHE == kCacheLevel2 || CACHE == kCacheLevel2Last) {
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(from), "l"(EvictionPolicy<CACHE == kCacheLevel2Last>()));
  } else if constexpr (CACHE == kCacheStreaming) {
    asm volatile("ld.global.cs.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(from));
  } else {
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(from));
  }
  return word;
}
template <int CACHE>
__device__ inline uint2 LoadPiece(const uint2* from) {
  uint2 word;
  asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(word.x), "=r"(word.y) : "l"(from));
  return word;
}
template <int CACHE, typename Narrow>
__device__ inline Narrow LoadPiece(const Narrow* from) {
  return *from;
}

template <int CACHE>
__device__ inline void StorePiece(uint4* to, uint4 word) {
  if constexpr (CACHE == kCacheLevel2) {
    asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to),
                 "r"(word.x), "r"(word.y), "r"(word.z), "r"(word.w), "l"(EvictionPolicy<true>())
                 : "memory");
  } else if constexpr (CACHE == kCacheStreaming) {
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word.x), "r"(word.y),
                 "r"(word.z), "r"(word.w)
                 : "memory");
  } else {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word.x), "r"(word.y),
                 "r"(word.z), "r"(word.w)
                 : "memory");
  }
}
template <int CACHE>
__device__ inline void StorePiece(uint2* to, uint2 word) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(word.x), "r"(word.y) : "memory");
}
template <int CACHE, typename Narrow>
__device__ inline void StorePiece(Narrow* to, Narrow word) {
  *to = word;
}
#endif

// ACCESS: a word or a pack.
template <int CACHE, typename ACCESS>
__device__ inline ACCESS Load(const ACCESS* from) {
#if defined(__CUDA_ARCH__)
  using Piece = Word<alignof(ACCESS)>;
  ACCESS access;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(ACCESS) / sizeof(Piece)); ++i) {
    reinterpret_cast<Piece*>(&access)[i] =
        LoadPiece<CACHE>(reinterpret_cast<const Piece*>(from) + i);
  }
  return access;
#else
  return *from;
#endif
}

template <int CACHE, typename ACCESS>
__device__ inline void Store(ACCESS* to, const ACCESS& access) {
#if defined(__CUDA_ARCH__)
  using Piece = Word<alignof(ACCESS)>;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(ACCESS) / sizeof(Piece)); ++i) {
    StorePiece<CACHE>(reinterpret_cast<Piece*>(to) + i, reinterpret_cast<const Piece*>(&access)[i]);
  }
#else
  *to = access;
#endif
}

template <int N, int CACHE = kCachePlain, typename T>
__device__ inline Pack<T, N> LoadPack(const T* from) {
  return Load<CACHE>(reinterpret_cast<const Pack<T, N>*>(from));
}

template <int CACHE = kCachePlain, typename T, int N>
__device__ inline void StorePack(T* to, const Pack<T, N>& pack) {
  Store<CACHE>(reinterpret_cast<Pack<T, N>*>(to), pack);
}

// Two floats at once where the hardware converts two.
__device__ inline void FromFloats(float a, float b, float* to) {
  to[0] = a;
  to[1] = b;
}
__device__ inline void FromFloats(float a, float b, __half* to) {
  *reinterpret_cast<__half2*>(to) = __floats2half2_rn(a, b);
}
__device__ inline void FromFloats(float a, float b, __nv_bfloat16* to) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(a, b);
}

// Results as they are stored.
template <typename T, int N>
__device__ inline Pack<T, N> ToPack(const float (&values)[N]) {
  Pack<T, N> pack;
  if constexpr (N == 1) {
    pack.values[0] = static_cast<T>(values[0]);
  } else {
#pragma unroll
    for (int j = 0; j < N; j += 2) FromFloats(values[j], values[j + 1], &pack.values[j]);
  }
  return pack;
}
