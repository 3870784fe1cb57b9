// y[r][c] = h[r][c] / sqrt(mean of the squares of row r of h + eps) * weight[c], computed in float;
// h = x, or x + residual. norm.cuh says how.
#include "norm.cuh"

template <typename T, typename OUT, int COLS, bool RESIDUAL, Scales SCALES, int THREADS, int ROWS,
          int CLUSTER, int VEC, int KEEP, int CACHE>
__global__ void __launch_bounds__(THREADS* ROWS)
    rmsnorm(OUT* y, T* h, float* y_scale, const T* x, const T* weight, const T* residual, float eps,
            long long rows) {
  const NormArguments<T, OUT> to_do = {y, h, y_scale, x, residual, weight, nullptr, eps, rows};
  Norm<false, T, OUT, COLS, RESIDUAL, SCALES, THREADS, ROWS, CLUSTER, VEC, KEEP, CACHE>(to_do).Run();
}

template <typename T, typename OUT, int COLS, bool RESIDUAL, Scales SCALES>
__global__ void rmsnorm_reference(OUT* y, T* h, float* y_scale, const T* x, const T* weight,
                                  const T* residual, float eps, long long rows) {
  NormReference<false, T, OUT, COLS, RESIDUAL, SCALES>(
      {y, h, y_scale, x, residual, weight, nullptr, eps, rows});
}
