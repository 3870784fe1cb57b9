// y[i] = x[i] + 1. The other kernel of this name adds 2.
template <int XBLOCK>
__global__ void same_name(float* y, const float* x, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * XBLOCK + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0f;
}

__global__ void same_name_reference(float* y, const float* x, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0f;
}
