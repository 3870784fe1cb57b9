// y[r][c] = f[r][c] - max - log(sum of exp(f[r][c] - max) over row r), max that of row r of f, an
// operator chain of x, a mask and a scale, computed in float. softmax.cuh says how.
#include "chain_f.h"
#include "softmax.cuh"

template <typename T, typename M, typename F, int COLS, int MASK_ROWS, int THREADS, int ROWS,
          int CLUSTER, int VEC, int KEEP, int CACHE>
__global__ void __launch_bounds__(THREADS* ROWS)
    log_softmax(T* y, const T* x, const M* mask, float scale, long long rows) {
  Softmax<true, T, M, F, COLS, MASK_ROWS, THREADS, ROWS, CLUSTER, VEC, KEEP, CACHE>(x, mask, scale,
                                                                                   rows)
      .Run(y);
}

template <typename T, typename M, typename F, int COLS, int MASK_ROWS>
__global__ void log_softmax_reference(T* y, const T* x, const M* mask, float scale,
                                      long long rows) {
  SoftmaxReference<true, T, M, F, COLS, MASK_ROWS>(y, x, mask, scale, rows);
}
