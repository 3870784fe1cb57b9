// out[r][c] = f(a[r][c], b[r][c], c[r][c], d[r][c], scale, alpha, beta) over a dense rows x cols
// matrix, f generated from an operator chain and computed in float.
//
// Each input has a shape: the whole matrix, one row for all rows, one column for all columns, or
// one element. Elements are counted through the whole matrix, so rows may have any length. One tile
// a block; neighbouring threads take neighbouring accesses of VEC elements; a thread issues the
// loads of all its ITEMS accesses before it computes. Inputs that the chain does not read are never
// touched.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "chain_f.h"

enum Shape { full, row, column, scalar };

// How accesses treat the caches.
enum Cache {
  kCachePlain = 0,
  kCacheStreaming = 1,  // loads leave no line in L1, stores are marked as touched once
};

template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T values[N];
};

template <int CACHE, typename T, int N>
__device__ inline Pack<T, N> LoadPack(const T* from) {
#if defined(__CUDA_ARCH__)
  if constexpr (CACHE == kCacheStreaming && sizeof(T) * N % 16 == 0) {
    Pack<T, N> pack;
    uint4* const words = reinterpret_cast<uint4*>(&pack);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) * N / 16); ++i) {
      asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[i].x), "=r"(words[i].y), "=r"(words[i].z), "=r"(words[i].w)
                   : "l"(reinterpret_cast<const uint4*>(from) + i));
    }
    return pack;
  }
#endif
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

template <int CACHE, typename T, int N>
__device__ inline void StorePack(T* to, const Pack<T, N>& pack) {
#if defined(__CUDA_ARCH__)
  if constexpr (CACHE == kCacheStreaming && sizeof(T) * N % 16 == 0) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) * N / 16); ++i) {
      __stcs(reinterpret_cast<uint4*>(to) + i, reinterpret_cast<const uint4*>(&pack)[i]);
    }
    return;
  }
#endif
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// Results as they are stored; two of fp8 in one conversion.
template <typename OUT, int N>
struct Conversion {
  __device__ static void Run(const float (&values)[N], Pack<OUT, N>& pack) {
#pragma unroll
    for (int j = 0; j < N; ++j) pack.values[j] = static_cast<OUT>(values[j]);
  }
};
template <int N>
struct Conversion<__nv_fp8_e4m3, N> {
  __device__ static void Run(const float (&values)[N], Pack<__nv_fp8_e4m3, N>& pack) {
    if constexpr (N % 2 != 0) {
#pragma unroll
      for (int j = 0; j < N; ++j) pack.values[j] = static_cast<__nv_fp8_e4m3>(values[j]);
    } else {
#pragma unroll
      for (int j = 0; j < N; j += 2) {
        const __nv_fp8x2_storage_t two = __nv_cvt_float2_to_fp8x2(
            make_float2(values[j], values[j + 1]), __NV_SATFINITE, __NV_E4M3);
        pack.values[j].__x = static_cast<__nv_fp8_storage_t>(two & 0xff);
        pack.values[j + 1].__x = static_cast<__nv_fp8_storage_t>(two >> 8);
      }
    }
  }
};

// Where an access lies. Divisions of 32 bits take a fraction of the instructions of 64.
struct Place {
  long long row;
  long long col;
};
__device__ inline Place PlaceOf(long long element, long long cols, bool small) {
  if (small) {
    const unsigned int divisor = static_cast<unsigned int>(cols);
    const unsigned int quotient = static_cast<unsigned int>(element) / divisor;
    return {quotient, static_cast<unsigned int>(element) - quotient * divisor};
  }
  const long long quotient = element / cols;
  return {quotient, element - quotient * cols};
}

// One input: what a thread holds of it between its loads and its arithmetic.
template <typename T, Shape SHAPE, bool READ, int VEC, int CACHE>
struct Operand {
  static constexpr bool kNeedsPlace = READ && (SHAPE == row || SHAPE == column);
  Pack<T, VEC> pack;

  // VEC elements from `element` on. `whole`: they lie in one row, and a row vector's can be read in
  // one access.
  __device__ void Load(const T* from, long long element, Place place, long long cols, bool whole) {
    if constexpr (READ && SHAPE == full) {
      pack = LoadPack<CACHE, T, VEC>(from + element);
    } else if constexpr (READ && SHAPE == row) {
      if (whole) {
        pack = *reinterpret_cast<const Pack<T, VEC>*>(from + place.col);
        return;
      }
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        pack.values[j] = from[place.col];
        if (++place.col == cols) place.col = 0;
      }
    } else if constexpr (READ && SHAPE == column) {
      pack.values[0] = from[place.row];
      if (whole) {
#pragma unroll
        for (int j = 1; j < VEC; ++j) pack.values[j] = pack.values[0];
        return;
      }
#pragma unroll
      for (int j = 1; j < VEC; ++j) {
        if (++place.col == cols) {
          place.col = 0;
          ++place.row;
          pack.values[j] = from[place.row];
        } else {
          pack.values[j] = pack.values[j - 1];
        }
      }
    }
  }

  __device__ float Value(int j, float single) const {
    if constexpr (!READ) return 0.0f;
    if constexpr (SHAPE == scalar) return single;
    return static_cast<float>(pack.values[j]);
  }

  // The one element of a scalar.
  __device__ static float Single(const T* from) {
    if constexpr (READ && SHAPE == scalar) return static_cast<float>(*from);
    return 0.0f;
  }

  // Element `element` alone.
  __device__ static float One(const T* from, long long element, Place place, float single) {
    if constexpr (!READ) return 0.0f;
    if constexpr (SHAPE == full) return static_cast<float>(from[element]);
    if constexpr (SHAPE == row) return static_cast<float>(from[place.col]);
    if constexpr (SHAPE == column) return static_cast<float>(from[place.row]);
    return single;
  }

  // Whether a row vector can be read VEC elements at once wherever an access begins.
  __device__ static bool Aligned(const T* from) {
    if constexpr (!READ || SHAPE != row) return true;
    return reinterpret_cast<unsigned long long>(from) % alignof(Pack<T, VEC>) == 0;
  }
};

template <typename OUT, typename A, Shape A_SHAPE, typename B, Shape B_SHAPE, typename C,
          Shape C_SHAPE, typename D, Shape D_SHAPE, typename F, int XBLOCK, int VEC, int ITEMS,
          int CACHE>
__global__ void __launch_bounds__(XBLOCK)
    elementwise(OUT* out, const A* a, const B* b, const C* c, const D* d, const float* scale,
                float alpha, float beta, long long rows, long long cols) {
  using OperandA = Operand<A, A_SHAPE, F::reads_a, VEC, CACHE>;
  using OperandB = Operand<B, B_SHAPE, F::reads_b, VEC, CACHE>;
  using OperandC = Operand<C, C_SHAPE, F::reads_c, VEC, CACHE>;
  using OperandD = Operand<D, D_SHAPE, F::reads_d, VEC, CACHE>;
  // Results of 16 bits and fewer do not show what quicker functions are off by.
  constexpr bool kFast = sizeof(OUT) < 4;
  constexpr bool kNeedsPlace = OperandA::kNeedsPlace || OperandB::kNeedsPlace ||
                               OperandC::kNeedsPlace || OperandD::kNeedsPlace;
  constexpr long long kTile = static_cast<long long>(XBLOCK) * VEC * ITEMS;

  const long long n = rows * cols;
  const bool small = n <= 0xffffffffLL;
  const long long tile_begin = blockIdx.x * kTile;
  const long long begin = tile_begin + static_cast<long long>(threadIdx.x) * VEC;
  const float single_a = OperandA::Single(a);
  const float single_b = OperandB::Single(b);
  const float single_c = OperandC::Single(c);
  const float single_d = OperandD::Single(d);
  float scale_value = 0.0f;
  if constexpr (F::reads_scale) scale_value = *scale;

  if (tile_begin + kTile <= n) {
    bool whole = false;
    if constexpr (kNeedsPlace) {
      whole = cols % VEC == 0 && OperandA::Aligned(a) && OperandB::Aligned(b) &&
              OperandC::Aligned(c) && OperandD::Aligned(d);
    }
    OperandA as[ITEMS];
    OperandB bs[ITEMS];
    OperandC cs[ITEMS];
    OperandD ds[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const long long element = begin + static_cast<long long>(i) * XBLOCK * VEC;
      Place place{0, 0};
      if constexpr (kNeedsPlace) place = PlaceOf(element, cols, small);
      as[i].Load(a, element, place, cols, whole);
      bs[i].Load(b, element, place, cols, whole);
      cs[i].Load(c, element, place, cols, whole);
      ds[i].Load(d, element, place, cols, whole);
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      float values[VEC];
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        values[j] = F::template Apply<kFast>(as[i].Value(j, single_a), bs[i].Value(j, single_b),
                                             cs[i].Value(j, single_c), ds[i].Value(j, single_d),
                                             scale_value, alpha, beta);
      }
      Pack<OUT, VEC> results;
      Conversion<OUT, VEC>::Run(values, results);
      StorePack<CACHE>(out + begin + static_cast<long long>(i) * XBLOCK * VEC, results);
    }
    return;
  }

  // The last tile, element by element.
  for (int i = 0; i < ITEMS; ++i) {
    const long long at = begin + static_cast<long long>(i) * XBLOCK * VEC;
    for (long long element = at; element < at + VEC && element < n; ++element) {
      Place place{0, 0};
      if constexpr (kNeedsPlace) place = PlaceOf(element, cols, small);
      out[element] = static_cast<OUT>(F::template Apply<kFast>(
          OperandA::One(a, element, place, single_a), OperandB::One(b, element, place, single_b),
          OperandC::One(c, element, place, single_c), OperandD::One(d, element, place, single_d),
          scale_value, alpha, beta));
    }
  }
}
