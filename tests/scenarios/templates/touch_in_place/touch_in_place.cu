// x[0] *= 1.5f, however long x is: the kernel takes next to nothing, restoring x takes a while.
template <int XBLOCK>
__global__ void touch_in_place(float* x, long long n) {
  if (blockIdx.x == 0 && threadIdx.x == 0 && n > 0) x[0] *= 1.5f;
}

__global__ void touch_in_place_reference(float* x, long long n) {
  if (blockIdx.x == 0 && threadIdx.x == 0 && n > 0) x[0] = 1.5f * x[0];
}
