// y[i] = x[i] + kAddend, which stands in a header that a header includes.
#include "a.h"

template <int XBLOCK>
__global__ void with_headers(float* y, const float* x, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * XBLOCK + threadIdx.x;
  if (i < n) y[i] = Add(x[i]);
}

__global__ void with_headers_reference(float* y, const float* x, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + kAddend;
}
