// out[r][c] = f(a[r][c], b[r][c], c[r][c], d[r][c], scale, alpha, beta) over a dense rows x cols
// matrix, f generated from an operator chain and computed in float.
//
// Each input has a shape: the whole matrix, one row for all rows, one column for all columns, or
// one element. Elements are counted through the whole matrix, so rows may have any length. One tile
// a block; neighbouring threads take neighbouring accesses of VEC elements; a thread issues the
// loads of all its ITEMS accesses before it computes. Inputs that the chain does not read are never
// touched.
#include "chain_f.h"
#include "quantize.cuh"

enum Shape { full, row, column, scalar };

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
      pack = LoadPack<VEC, CACHE>(from + element);
    } else if constexpr (READ && SHAPE == row) {
      if (whole) {
        pack = LoadPack<VEC>(from + place.col);
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
      StorePack<CACHE == kCachePlain ? kCachePlain : kCacheStreaming>(
          out + begin + static_cast<long long>(i) * XBLOCK * VEC, ToPack<OUT>(values));
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
