// x[i] *= 1.5f: applied once too often it shows, applied hundreds of times it overflows.
template <int XBLOCK>
__global__ void __launch_bounds__(XBLOCK) scale_in_place(float* x, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * XBLOCK + threadIdx.x;
  if (i < n) x[i] *= 1.5f;
}

__global__ void scale_in_place_reference(float* x, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) x[i] = 1.5f * x[i];
}
