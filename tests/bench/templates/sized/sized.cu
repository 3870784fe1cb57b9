// A kernel whose binary has a table of BYTES bytes, and is another one for every KEY.
template <long long BYTES, long long KEY>
__device__ unsigned char sized_table[BYTES] = {1 + KEY % 251, KEY / 251 % 256, KEY / 64256};

template <long long BYTES, long long KEY>
__global__ void sized(unsigned char* out, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = sized_table<BYTES, KEY>[i % BYTES];
}
