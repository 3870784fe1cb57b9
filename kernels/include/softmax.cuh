// Softmax of every row and its relatives: what they find out about a row, and how softmax and
// log_softmax write it.
#pragma once

#include "row.cuh"

// A power of two as the hardware computes it. Results below 2^-126 are 0.
__device__ inline float Exp2(float v) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
  return power;
#else
  return exp2f(v);
#endif
}
__device__ inline float Exp(float v) { return Exp2(v * 1.44269504f); }

// The largest number seen and the sum of exp(number - largest). `max` never falls below the lowest
// finite float: with -inf as the largest, -inf - -inf would make a NaN of a masked part of a row. A
// row that is masked as a whole has a sum of 0.
struct Exponentials {
  float max;
  float sum;
};
constexpr float kLowest = -3.402823466e+38f;

struct MergeExponentials {
  __device__ Exponentials operator()(const Exponentials& a, const Exponentials& b) const {
    const float max = fmaxf(a.max, b.max);
    return {max, a.sum * Exp(a.max - max) + b.sum * Exp(b.max - max)};
  }
};

template <int N, int VEC>
__device__ inline float MaxOf(const float (&values)[N][VEC]) {
  float max = kLowest;
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int j = 0; j < VEC; ++j) max = fmaxf(max, values[n][j]);
  }
  return max;
}

template <int N, int VEC>
__device__ inline void Add(const float (&values)[N][VEC], Exponentials& all) {
  const float max = fmaxf(all.max, MaxOf(values));
  float sums[VEC] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int j = 0; j < VEC; ++j) sums[j] += Exp(values[n][j] - max);
  }
#pragma unroll
  for (int j = 1; j < VEC; ++j) sums[0] += sums[j];
  all.sum = all.sum * Exp(all.max - max) + sums[0];
  all.max = max;
}

// y = softmax of f(x, mask, scale), or its logarithm, with F the chain f. Row r has row r of the
// mask, or row r % MASK_ROWS. Between the two passes over a row a thread keeps what it read (KEEP
// 1), or the exponentials, for the logarithm f (KEEP 2: twice the registers for 16-bit types, less
// arithmetic), or it reads again, from a cache as a rule (KEEP 0).
template <bool LOG, typename T, typename M, typename F, int COLS, int MASK_ROWS, int THREADS,
          int ROWS, int CLUSTER, int VEC, int KEEP, int CACHE>
struct Softmax {
  using Group = RowGroup<THREADS, ROWS, CLUSTER>;
  using Columns = RowColumns<COLS, VEC, THREADS, CLUSTER>;
  static constexpr int kAccesses = Columns::kAccesses;
  // Accesses in arithmetic at once, and in flight where they are not kept.
  static constexpr int kBatchMost = KEEP == 2 ? kAccesses : KEEP == 1 ? 2 : 4;
  static constexpr int kBatch = kAccesses < kBatchMost ? kAccesses : kBatchMost;
  static constexpr int kBatches = (kAccesses + kBatch - 1) / kBatch;
  static constexpr int kLoaded = KEEP ? kBatches * kBatch : kBatch;

  const Group group;
  const Columns columns;
  const T* const from;
  const M* const mask_row;
  const float scale;
  Pack<T, VEC> packs[kLoaded];
  Pack<M, VEC> masks[F::reads_mask ? kLoaded : 1];

  __device__ Softmax(const T* x, const M* mask, float scale_of_f, long long rows)
      : group(rows),
        columns(group),
        from(x + group.row * COLS),
        mask_row(mask + (MASK_ROWS == 0 ? group.row : group.row % max(MASK_ROWS, 1)) * COLS),
        scale(scale_of_f) {}

  // kLoaded accesses from `i` on.
  template <int HINT = CACHE>
  __device__ void Fetch(int i) {
#pragma unroll
    for (int n = 0; n < kLoaded; ++n) {
      if constexpr (F::reads_x) packs[n] = columns.template Load<HINT>(from, i + n);
      if constexpr (F::reads_mask && MASK_ROWS == 0) {
        masks[n] = columns.template Load<HINT>(mask_row, i + n);
      } else if constexpr (F::reads_mask) {
        masks[n] = columns.LoadVector(mask_row, i + n);
      }
    }
  }

  // f of the batch from access `i` on, which is loaded from `at` on; -inf outside of the row.
  __device__ void Values(int i, int at, float (&values)[kBatch][VEC]) {
    if constexpr (KEEP == 1) {
      KeepPacked(packs);
      KeepPacked(masks);
    }
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        float v = 0.0f;
        float m = 0.0f;
        if constexpr (F::reads_x) v = static_cast<float>(packs[at + n].values[j]);
        if constexpr (F::reads_mask) m = static_cast<float>(masks[at + n].values[j]);
        v = F::template Apply<sizeof(T) == 2>(v, m, scale);
        values[n][j] = columns.Inside(i + n, j) ? v : -Infinity();
      }
    }
  }

  __device__ void Store(T* y, int i, const float (&values)[kBatch][VEC]) const {
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      columns.template Store<CACHE>(y + group.row * COLS, i + n, ToPack<T>(values[n]));
    }
  }

  __device__ void Run(T* y) {
    float values[kBatch][VEC];
    Exponentials mine = {kLowest, 0.0f};
    if constexpr (KEEP) Fetch(0);
#pragma unroll(KEEP ? kBatches : 1)
    for (int b = 0; b < kBatches; ++b) {
      if constexpr (!KEEP) Fetch(b * kBatch);
      Values(b * kBatch, KEEP ? b * kBatch : 0, values);
      if constexpr (KEEP == 2 && !LOG) {
        mine.max = MaxOf(values);
        float sums[VEC] = {};
#pragma unroll
        for (int n = 0; n < kBatch; ++n) {
#pragma unroll
          for (int j = 0; j < VEC; ++j) sums[j] += values[n][j] = Exp(values[n][j] - mine.max);
        }
#pragma unroll
        for (int j = 0; j < VEC; ++j) mine.sum += sums[j];
      } else {
        Add(values, mine);
      }
    }

    const Exponentials all = group.template Reduce<0>(mine, MergeExponentials());
    const float log_sum = LOG ? logf(all.sum) : 0.0f;
    const float factor = (KEEP == 2 ? Exp(mine.max - all.max) : 1.0f) / all.sum;
    // Backwards, because what was read last is what a cache still has.
#pragma unroll(KEEP ? kBatches : 1)
    for (int b = kBatches - 1; b >= 0; --b) {
      if constexpr (!KEEP) Fetch<kLastOf<CACHE>>(b * kBatch);
      if constexpr (KEEP != 2) Values(b * kBatch, KEEP ? b * kBatch : 0, values);
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
          float& v = values[n][j];
          if constexpr (LOG) {
            v = v - all.max - log_sum;
          } else {
            v = (KEEP == 2 ? v : Exp(v - all.max)) * factor;
          }
        }
      }
      Store(y, b * kBatch, values);
    }
  }
};

// Simple, in double precision, one thread a row.
template <bool LOG, typename T, typename M, typename F, int COLS, int MASK_ROWS>
__device__ void SoftmaxReference(T* y, const T* x, const M* mask, float scale, long long rows) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const long long mask_row = MASK_ROWS == 0 ? row : row % max(MASK_ROWS, 1);
  const auto f = [&](int c) -> double {
    float v = 0.0f;
    float m = 0.0f;
    if constexpr (F::reads_x) v = static_cast<float>(x[row * COLS + c]);
    if constexpr (F::reads_mask) m = static_cast<float>(mask[mask_row * COLS + c]);
    return F::template Apply<false>(v, m, scale);
  };
  double max = f(0);
  for (int c = 1; c < COLS; ++c) max = fmax(max, f(c));
  double sum = 0.0;
  for (int c = 0; c < COLS; ++c) sum += exp(f(c) - max);
  for (int c = 0; c < COLS; ++c) {
    const double result = LOG ? f(c) - max - log(sum) : exp(f(c) - max) / sum;
    y[row * COLS + c] = static_cast<T>(static_cast<float>(result));
  }
}
