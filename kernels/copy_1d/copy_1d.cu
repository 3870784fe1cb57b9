// dst[i] = src[i] for i in [0, n).
//
// One tile per block: every thread moves ITEMS accesses of VEC elements, neighbouring threads
// touching neighbouring accesses. All loads of a thread are issued before its first store, so that
// ITEMS of them are in flight at once.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The unsigned type of one access.
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

// How an access treats the caches.
enum Cache {
  kCachePlain = 0,
  kCacheNoAllocate = 1,  // loads leave no line in L1
  kCacheStreaming = 2,   // loads and stores are marked as touched once
};

template <int CACHE, typename Word>
__device__ inline Word Load(const Word* address) {
#if defined(__CUDA_ARCH__)
  if constexpr (CACHE == kCacheNoAllocate) {
    static_assert(sizeof(Word) == 16, "cache hints are for 16-byte accesses");
    Word word;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(address));
    return word;
  } else if constexpr (CACHE == kCacheStreaming) {
    return __ldcs(address);
  }
#endif
  return *address;
}

template <int CACHE, typename Word>
__device__ inline void Store(Word* address, Word word) {
#if defined(__CUDA_ARCH__)
  if constexpr (CACHE == kCacheStreaming) {
    __stcs(address, word);
    return;
  }
#endif
  *address = word;
}

template <typename T, int XBLOCK, int VEC, int ITEMS, int CACHE>
__global__ void __launch_bounds__(XBLOCK) copy_1d(T* dst, const T* src, long long n) {
  using Word = typename WordOf<VEC * sizeof(T)>::Type;
  constexpr long long kTile = static_cast<long long>(XBLOCK) * VEC * ITEMS;
  const long long tile_begin = blockIdx.x * kTile;
  const long long begin = tile_begin + static_cast<long long>(threadIdx.x) * VEC;

  if (tile_begin + kTile <= n) {
    const Word* from = reinterpret_cast<const Word*>(src + begin);
    Word* to = reinterpret_cast<Word*>(dst + begin);
    Word words[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) words[i] = Load<CACHE>(from + i * XBLOCK);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) Store<CACHE>(to + i * XBLOCK, words[i]);
    return;
  }

  // The last tile: whole accesses while they fit, then single elements.
  for (int i = 0; i < ITEMS; ++i) {
    const long long at = begin + static_cast<long long>(i) * XBLOCK * VEC;
    if (at + VEC <= n) {
      *reinterpret_cast<Word*>(dst + at) = *reinterpret_cast<const Word*>(src + at);
    } else {
      for (long long j = at; j < n; ++j) dst[j] = src[j];
    }
  }
}

template <typename T>
__global__ void copy_1d_reference(T* dst, const T* src, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) dst[i] = src[i];
}
