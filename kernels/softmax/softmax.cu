// y[r][c] = exp(x[r][c] - max of row r) / (sum of these over row r), computed in float.
//
// THREADS_PER_ROW threads share a row, ROWS_PER_BLOCK rows share a block. Between the two passes
// over a row it stays in registers (KEEP 1), or its exponentials do (KEEP 2: twice the registers
// for F16 and BF16, half the exponentials), or it is read again, from the cache as a rule (KEEP 0).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

// exp(v) as a power of two, which is what the hardware computes.
__device__ inline float Exp(float v) { return exp2f(v * 1.44269504f); }

// The largest element seen and the sum of exp(element - largest). `max` never falls below the
// lowest finite float: with -inf as the largest, -inf - -inf would make a NaN of a masked part of a
// row. A row that is masked as a whole ends as 0 / 0, a NaN, as it should.
struct Softmax {
  float max = -3.402823466e+38f;
  float sum = 0.0f;
};

__device__ inline Softmax Merge(Softmax a, Softmax b) {
  Softmax all;
  all.max = fmaxf(a.max, b.max);
  all.sum = a.sum * Exp(a.max - all.max) + b.sum * Exp(b.max - all.max);
  return all;
}

template <typename T, int N>
__device__ inline float Max(const Pack<T, N>& pack) {
  float max = static_cast<float>(pack.values[0]);
#pragma unroll
  for (int j = 1; j < N; ++j) max = fmaxf(max, static_cast<float>(pack.values[j]));
  return max;
}

template <typename T, int N>
__device__ inline float SumOfExp(const Pack<T, N>& pack, float max) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < N; ++j) sum += Exp(static_cast<float>(pack.values[j]) - max);
  return sum;
}

template <typename T, int COLS, int THREADS_PER_ROW, int ROWS_PER_BLOCK, int VEC, int KEEP>
__global__ void __launch_bounds__(THREADS_PER_ROW* ROWS_PER_BLOCK)
    softmax(T* y, const T* x, long long rows) {
  using Access = Pack<T, VEC>;
  constexpr int kLanes = THREADS_PER_ROW < 32 ? THREADS_PER_ROW : 32;  // of a warp, on one row
  constexpr int kWarps = THREADS_PER_ROW / kLanes;                     // on one row
  constexpr int kAccesses = (COLS / VEC + THREADS_PER_ROW - 1) / THREADS_PER_ROW;
  constexpr int kKept = KEEP ? kAccesses : 1;
  const int lane = static_cast<int>(threadIdx.x) % THREADS_PER_ROW;
  const int row_in_block = static_cast<int>(threadIdx.x) / THREADS_PER_ROW;
  const long long row = static_cast<long long>(blockIdx.x) * ROWS_PER_BLOCK + row_in_block;
  // Threads of a missing row stay, because shuffles and barriers want whole warps and blocks.
  const int accesses = row < rows ? COLS / VEC : 0;
  const Access* from = reinterpret_cast<const Access*>(x + row * COLS);
  Access* to = reinterpret_cast<Access*>(y + row * COLS);

  Access packs[kKept];
  float exponentials[KEEP == 2 ? kKept : 1][VEC];
  Softmax mine;
  if constexpr (KEEP) {
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const int at = lane + i * THREADS_PER_ROW;
      if (at < accesses) packs[i] = from[at];
    }
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (lane + i * THREADS_PER_ROW < accesses) mine.max = fmaxf(mine.max, Max(packs[i]));
    }
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (lane + i * THREADS_PER_ROW < accesses) {
        if constexpr (KEEP == 2) {
#pragma unroll
          for (int j = 0; j < VEC; ++j) {
            exponentials[i][j] = Exp(static_cast<float>(packs[i].values[j]) - mine.max);
            mine.sum += exponentials[i][j];
          }
        } else {
          mine.sum += SumOfExp(packs[i], mine.max);
        }
      }
    }
  } else {
#pragma unroll 4
    for (int at = lane; at < accesses; at += THREADS_PER_ROW) {
      const Access pack = from[at];
      Softmax part;
      part.max = fmaxf(part.max, Max(pack));
      part.sum = SumOfExp(pack, part.max);
      mine = Merge(mine, part);
    }
  }

  Softmax all = mine;
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    Softmax other;
    other.max = __shfl_xor_sync(0xffffffffu, all.max, offset);
    other.sum = __shfl_xor_sync(0xffffffffu, all.sum, offset);
    all = Merge(all, other);
  }
  if constexpr (kWarps > 1) {
    __shared__ float max_of_warp[ROWS_PER_BLOCK][kWarps];
    __shared__ float sum_of_warp[ROWS_PER_BLOCK][kWarps];
    if (lane % kLanes == 0) {
      max_of_warp[row_in_block][lane / kLanes] = all.max;
      sum_of_warp[row_in_block][lane / kLanes] = all.sum;
    }
    __syncthreads();
    all = Softmax();
#pragma unroll
    for (int w = 0; w < kWarps; ++w) all.max = fmaxf(all.max, max_of_warp[row_in_block][w]);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      all.sum += sum_of_warp[row_in_block][w] * Exp(max_of_warp[row_in_block][w] - all.max);
    }
  }

  const float scale = (KEEP == 2 ? Exp(mine.max - all.max) : 1.0f) / all.sum;
  // Backwards, because what was read last is what a cache still has.
#pragma unroll(KEEP ? kAccesses : 4)
  for (int i = kAccesses - 1; i >= 0; --i) {
    const int at = lane + i * THREADS_PER_ROW;
    if (at < accesses) {
      Access pack;
      if constexpr (KEEP == 0) {
        pack = from[at];
      } else {
        pack = packs[i];
      }
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        float e;
        if constexpr (KEEP == 2) {
          e = exponentials[i][j];
        } else {
          e = Exp(static_cast<float>(pack.values[j]) - all.max);
        }
        pack.values[j] = static_cast<T>(e * scale);
      }
      to[at] = pack;
    }
  }
}

template <typename T, int COLS>
__global__ void softmax_reference(T* y, const T* x, long long rows) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const T* from = x + row * COLS;
  float max = static_cast<float>(from[0]);
  for (int c = 1; c < COLS; ++c) max = fmaxf(max, static_cast<float>(from[c]));
  double sum = 0.0;
  for (int c = 0; c < COLS; ++c) sum += exp(static_cast<double>(static_cast<float>(from[c])) - max);
  for (int c = 0; c < COLS; ++c) {
    const double e = exp(static_cast<double>(static_cast<float>(from[c])) - max);
    y[row * COLS + c] = static_cast<T>(static_cast<float>(e / sum));
  }
}
