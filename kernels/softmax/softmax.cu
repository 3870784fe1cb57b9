// y[r][c] = exp(f[r][c] - max of row r of f) / (sum of these over row r), f an operator chain of x, a
// mask and a scale, computed in float. softmax.cuh says how.
#include "chain_f.h"
#include "softmax.cuh"

template <typename T, typename M, typename F, int COLS, int MASK_ROWS, int THREADS, int ROWS,
          int CLUSTER, int VEC, int KEEP, int CACHE>
__global__ void __launch_bounds__(THREADS* ROWS)
    softmax(T* y, const T* x, const M* mask, float scale, long long rows) {
  Softmax<false, T, M, F, COLS, MASK_ROWS, THREADS, ROWS, CLUSTER, VEC, KEEP, CACHE>(x, mask, scale,
                                                                                    rows)
      .Run(y);
}

template <typename T, typename M, typename F, int COLS, int MASK_ROWS>
__global__ void softmax_reference(T* y, const T* x, const M* mask, float scale, long long rows) {
  SoftmaxReference<false, T, M, F, COLS, MASK_ROWS>(y, x, mask, scale, rows);
}
