// dst[i] = src[i] for i in [0, n).
//
// A tile is XBLOCK * ITEMS accesses of VEC elements. Without STAGES a block's threads carry it in
// registers, neighbouring threads neighbouring accesses; all loads of a thread are issued before its
// first store, so that ITEMS of them are in flight at once. With STAGES the bulk copy engine carries it
// through shared memory.
#include "bulk_copy.cuh"
#include "pack.cuh"

template <typename T, int XBLOCK, int VEC, int ITEMS, int CACHE, int BLOCKS_PER_SM, int STAGES>
__global__ void __launch_bounds__(XBLOCK) copy_1d(T* dst, const T* src, long long n) {
  using Access = Word<VEC * sizeof(T)>;
  constexpr long long kTile = static_cast<long long>(XBLOCK) * VEC * ITEMS;

  if constexpr (STAGES > 0) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char buffers[];
    if (threadIdx.x == 0) {
      constexpr int kBytes = static_cast<int>(kTile * sizeof(T));
      const long long whole = n / VEC * VEC;
      BulkCopy<STAGES, kBytes>(buffers, (whole + kTile - 1) / kTile, [&](long long tile) {
        const long long begin = tile * kTile;
        const long long left = whole - begin;
        return BulkPiece{src + begin, dst + begin,
                         static_cast<unsigned>((left < kTile ? left : kTile) * sizeof(T))};
      });
      if (blockIdx.x == 0) {
        for (long long i = whole; i < n; ++i) dst[i] = src[i];
      }
    }
#endif
  } else {
    for (long long tile_begin = blockIdx.x * kTile; tile_begin < n; tile_begin += gridDim.x * kTile) {
      const long long begin = tile_begin + static_cast<long long>(threadIdx.x) * VEC;
      if (tile_begin + kTile <= n) {
        const Access* from = reinterpret_cast<const Access*>(src + begin);
        Access* to = reinterpret_cast<Access*>(dst + begin);
        Access loaded[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) loaded[i] = Load<CACHE>(from + i * XBLOCK);
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) Store<CACHE>(to + i * XBLOCK, loaded[i]);
      } else {
        // The last tile: whole accesses while they fit, then single elements.
        for (int i = 0; i < ITEMS; ++i) {
          const long long at = begin + static_cast<long long>(i) * XBLOCK * VEC;
          if (at + VEC <= n) {
            *reinterpret_cast<Access*>(dst + at) = *reinterpret_cast<const Access*>(src + at);
          } else {
            for (long long j = at; j < n; ++j) dst[j] = src[j];
          }
        }
      }
      if constexpr (BLOCKS_PER_SM == 0) return;
    }
  }
}

template <typename T>
__global__ void copy_1d_reference(T* dst, const T* src, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) dst[i] = src[i];
}
