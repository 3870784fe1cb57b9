// dst[i][:] = src[index[i]][:], zeros where index[i] is not a row of src.
#include "indexed_rows.cuh"

template <typename T, typename I, int THREADS, int LANES, int VEC, int ITEMS, int CACHE>
__global__ void __launch_bounds__(THREADS) gather_rows(T* dst, const T* src, const I* index, long long rows,
                                                        long long cols, long long table_rows) {
  MoveIndexedRows<false, THREADS, LANES, VEC, ITEMS, CACHE>(dst, src, index, rows, cols, table_rows);
}

template <typename T, typename I>
__global__ void gather_rows_reference(T* dst, const T* src, const I* index, long long rows, long long cols,
                                      long long table_rows) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  const long long named = index[i / cols];
  dst[i] = named >= 0 && named < table_rows ? src[named * cols + i % cols] : static_cast<T>(0.0f);
}
