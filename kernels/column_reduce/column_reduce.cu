// Reductions over the rows of a dense rows x cols matrix: one result for each column.
//
// A block of TX * TY threads takes TX * VEC columns of one of `chunks` ranges of rows; TY threads share
// a column. What blocks know goes to scratch, and column_merge makes one of it; with one chunk there is
// nothing to merge.
#include "reduce.cuh"

template <typename T, Op OP, bool UNBIASED, int TX, int TY, int VEC, int UNROLL>
__global__ void __launch_bounds__(TX* TY)
    column_reduce(float* y, long long* index, float* variance, const T* x, void* partial,
                  long long rows, long long cols, int chunks) {
  const int in_block = static_cast<int>(threadIdx.x) % TX;
  const int first = static_cast<int>(threadIdx.x) / TX;
  const long long col = (static_cast<long long>(blockIdx.x) * TX + in_block) * VEC;
  const long long rows_of_chunk = (rows + chunks - 1) / chunks;
  const long long begin = blockIdx.y * rows_of_chunk;
  const long long end = begin + rows_of_chunk < rows ? begin + rows_of_chunk : rows;
  const long long row = begin + first;
  const int count = row < end && col < cols ? static_cast<int>((end - row + TY - 1) / TY) : 0;
  Gathered<OP> gathered[VEC];
  Gather<UNROLL>(gathered, x + row * cols + col, TY * cols, count);
  Known<OP> known[VEC];
#pragma unroll
  for (int j = 0; j < VEC; ++j) known[j] = gathered[j].Result(count, row, TY);
  MergeOverThreads<TX, TY, OP>(known, in_block, first);
  if (first != 0 || col >= cols) return;
#pragma unroll
  for (int j = 0; j < VEC; ++j) {
    if (chunks == 1) {
      StoreResult<OP>(known[j], col + j, UNBIASED, y, index, variance);
    } else {
      static_cast<Known<OP>*>(partial)[blockIdx.y * cols + col + j] = known[j];
    }
  }
}

template <Op OP, bool UNBIASED>
__global__ void __launch_bounds__(1024)
    column_merge(float* y, long long* index, float* variance, const void* partial, long long cols,
                 int chunks) {
  MergeChunks<OP, 32, 32>(partial, chunks, cols, UNBIASED, y, index, variance);
}

template <typename T, Op OP, bool UNBIASED>
__global__ void column_reduce_reference(float* y, long long* index, float* variance, const T* x,
                                        void*, long long rows, long long cols, int) {
  const long long col = blockIdx.x;
  ReduceSimply<OP, 64>(x + col, cols, rows, col, UNBIASED, y, index, variance);
}
