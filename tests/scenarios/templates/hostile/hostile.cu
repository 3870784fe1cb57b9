// y[i] = 2 * x[i] + 1, in ways that a tuner must survive. KIND:
//   1 right                          6 wrong, and the fastest: never reads x
//   2 does not compile               7 leaves out a partial last block
//   3 writes just past the end of y  8 right, but slow
//   4 never ends                     9 writes far past the end of y
//   5 right, but launched with more shared memory than the device has
//  10 right, from the last element to the first
template <int KIND>
__global__ void hostile(float* y, const float* x, const int* never_set, long long n) {
  static_assert(KIND != 2, "candidate 2 is not meant to compile");
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long long i = KIND == 10 && at < n ? n - 1 - at : at;
  if (KIND == 4) {
    const volatile int* flag = never_set;
    while (*flag == 0) {
    }
  }
  if (KIND == 6) {
    if (i < n) y[i] = 0.0f;
    return;
  }
  if (KIND == 7 && (blockIdx.x + 1LL) * blockDim.x > n) return;
  if (i >= n) return;
  float value = x[i];
  if (KIND == 8) {
    const volatile float* slow = x + i;
    for (int repeat = 0; repeat < 64; ++repeat) value = *slow;
  }
  y[i] = 2.0f * value + 1.0f;
  if (KIND == 3 && i == 0) y[n] = 1.0f;
  if (KIND == 9 && i == 0) y[n + (1LL << 42)] = 1.0f;
}

__global__ void hostile_reference(float* y, const float* x, const int* never_set, long long n) {
  (void)never_set;
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i] + 1.0f;
}
