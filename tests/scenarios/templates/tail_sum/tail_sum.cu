// sums[b] = sum of the b-th 256 elements of x. With KIND 4 a partial last block is left out, which
// is wrong and saves time.
template <int KIND>
__global__ void tail_sum(float* sums, const float* x, long long n) {
  constexpr long long kBlock = 256;
  const long long block = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long long begin = block * kBlock;
  if (begin >= n) return;
  if (KIND == 4 && begin + kBlock > n) {
    sums[block] = 0.0f;
    return;
  }
  const long long end = begin + kBlock < n ? begin + kBlock : n;
  float sum = 0.0f;
  for (long long i = begin; i < end; ++i) sum += x[i];
  sums[block] = sum;
}

__global__ void tail_sum_reference(float* sums, const float* x, long long n) {
  const long long block = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  double sum = 0.0;
  for (long long i = 256 * block; i < 256 * (block + 1) && i < n; ++i) sum += x[i];
  if (256 * block < n) sums[block] = static_cast<float>(sum);
}
