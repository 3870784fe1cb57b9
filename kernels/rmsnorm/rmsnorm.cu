// y[r][c] = x[r][c] / sqrt(mean of the squares of row r + eps) * weight[c], computed in float.
//
// THREADS_PER_ROW threads share a row, ROWS_PER_BLOCK rows share a block. With KEEP a row stays in
// registers between its two passes; without, it is read again (from the cache, as a rule).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

template <typename T, int COLS, int THREADS_PER_ROW, int ROWS_PER_BLOCK, int VEC, int KEEP>
__global__ void __launch_bounds__(THREADS_PER_ROW* ROWS_PER_BLOCK)
    rmsnorm(T* y, const T* x, const T* weight, float eps, long long rows) {
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
  const Access* weights = reinterpret_cast<const Access*>(weight);
  Access* to = reinterpret_cast<Access*>(y + row * COLS);

  Access packs[kKept];
  float squares[VEC] = {};
  if constexpr (KEEP) {
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const int at = lane + i * THREADS_PER_ROW;
      if (at < accesses) packs[i] = from[at];
    }
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (lane + i * THREADS_PER_ROW < accesses) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
          const float v = static_cast<float>(packs[i].values[j]);
          squares[j] += v * v;
        }
      }
    }
  } else {
#pragma unroll 4
    for (int at = lane; at < accesses; at += THREADS_PER_ROW) {
      const Access pack = from[at];
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        const float v = static_cast<float>(pack.values[j]);
        squares[j] += v * v;
      }
    }
  }

  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < VEC; ++j) sum += squares[j];
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  if constexpr (kWarps > 1) {
    __shared__ float of_warp[ROWS_PER_BLOCK][kWarps];
    if (lane % kLanes == 0) of_warp[row_in_block][lane / kLanes] = sum;
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += of_warp[row_in_block][w];
  }
  const float scale = 1.0f / sqrtf(sum * (1.0f / COLS) + eps);

  // Backwards, because what was read last is what a cache still has.
#pragma unroll(KEEP ? kAccesses : 4)
  for (int i = kAccesses - 1; i >= 0; --i) {
    const int at = lane + i * THREADS_PER_ROW;
    if (at < accesses) {
      Access pack;
      if constexpr (KEEP) {
        pack = packs[i];
      } else {
        pack = from[at];
      }
      const Access w = weights[at];
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        pack.values[j] = static_cast<T>(static_cast<float>(pack.values[j]) * scale *
                                        static_cast<float>(w.values[j]));
      }
      to[at] = pack;
    }
  }
}

template <typename T, int COLS>
__global__ void rmsnorm_reference(T* y, const T* x, const T* weight, float eps, long long rows) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double sum = 0.0;
  for (int c = 0; c < COLS; ++c) {
    const double v = static_cast<float>(x[row * COLS + c]);
    sum += v * v;
  }
  const double scale = 1.0 / sqrt(sum / COLS + eps);
  for (int c = 0; c < COLS; ++c) {
    const double v = static_cast<float>(x[row * COLS + c]);
    y[row * COLS + c] =
        static_cast<T>(static_cast<float>(v * scale * static_cast<float>(weight[c])));
  }
}
