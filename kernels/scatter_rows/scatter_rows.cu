// dst[index[i]][:] = src[i][:], nothing where index[i] is not a row of dst.
#include "indexed_rows.cuh"

template <typename T, typename I, int THREADS, int LANES, int VEC, int ITEMS, int CACHE>
__global__ void __launch_bounds__(THREADS) scatter_rows(T* dst, const T* src, const I* index, long long rows,
                                                        long long cols, long long table_rows) {
  MoveIndexedRows<true, THREADS, LANES, VEC, ITEMS, CACHE>(dst, src, index, rows, cols, table_rows);
}

template <typename T, typename I>
__global__ void scatter_rows_reference(T* dst, const T* src, const I* index, long long rows, long long cols,
                                      long long table_rows) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  const long long named = index[i / cols];
  if (named >= 0 && named < table_rows) dst[named * cols + i % cols] = src[i];
}
