// y[r] = sum of row r of x, added in float.
//
// THREADS_PER_ROW threads share a row, ROWS_PER_BLOCK rows share a block.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

template <typename T, int COLS, int THREADS_PER_ROW, int ROWS_PER_BLOCK, int VEC>
__global__ void __launch_bounds__(THREADS_PER_ROW* ROWS_PER_BLOCK)
    row_sum(float* y, const T* x, long long rows) {
  using Access = Pack<T, VEC>;
  constexpr int kLanes = THREADS_PER_ROW < 32 ? THREADS_PER_ROW : 32;  // of a warp, on one row
  constexpr int kWarps = THREADS_PER_ROW / kLanes;                     // on one row
  const int lane = static_cast<int>(threadIdx.x) % THREADS_PER_ROW;
  const int row_in_block = static_cast<int>(threadIdx.x) / THREADS_PER_ROW;
  const long long row = static_cast<long long>(blockIdx.x) * ROWS_PER_BLOCK + row_in_block;

  // Threads of a missing row stay, because shuffles and barriers want whole warps and blocks.
  float sum = 0.0f;
  if (row < rows) {
    const Access* from = reinterpret_cast<const Access*>(x + row * COLS);
    float partial[VEC] = {};
#pragma unroll 8
    for (int i = lane; i < COLS / VEC; i += THREADS_PER_ROW) {
      const Access pack = from[i];
#pragma unroll
      for (int j = 0; j < VEC; ++j) partial[j] += static_cast<float>(pack.values[j]);
    }
#pragma unroll
    for (int j = 0; j < VEC; ++j) sum += partial[j];
  }

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
  if (lane == 0 && row < rows) y[row] = sum;
}

template <typename T, int COLS>
__global__ void row_sum_reference(float* y, const T* x, long long rows) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double sum = 0.0;
  for (int c = 0; c < COLS; ++c) sum += static_cast<float>(x[row * COLS + c]);
  y[row] = static_cast<float>(sum);
}
