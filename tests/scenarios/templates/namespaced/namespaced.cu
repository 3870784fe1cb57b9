// y[i] += a * x[i], by a kernel template inside nested namespaces.
#include <cuda_fp16.h>

namespace a {
namespace b {

template <typename T, int N>
__global__ void axpy(T* y, const T* x, float a, long long n) {
  const long long begin = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  for (long long i = begin; i < begin + N && i < n; ++i) {
    y[i] = static_cast<T>(a * static_cast<float>(x[i]) + static_cast<float>(y[i]));
  }
}

template <typename T>
__global__ void axpy_reference(T* y, const T* x, float a, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = static_cast<T>(a * static_cast<float>(x[i]) + static_cast<float>(y[i]));
}

}  // namespace b
}  // namespace a
