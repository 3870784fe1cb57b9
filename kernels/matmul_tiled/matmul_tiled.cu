// c = a * b for row-major a (m x K), b (K x N), c (m x N), accumulated in float.
//
// A block computes a BM x BN tile of c. It walks along k in steps of BK, staging the two strips in
// shared memory; every thread keeps a TM x TN piece of c in registers. Portable: no tensor cores.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

// Position of a thread's i-th of `mine` elements among `all`: groups of up to 4 neighbours, which
// one 16-byte access to shared memory brings; groups of different threads alternate.
template <int ALL, int MINE>
__device__ inline int Position(int thread, int i) {
  constexpr int kGroup = MINE < 4 ? MINE : 4;
  return i / kGroup * (ALL / MINE * kGroup) + thread * kGroup + i % kGroup;
}

template <typename T, int N, int K, int BM, int BN, int BK, int TM, int TN, int VEC>
__global__ void __launch_bounds__(BM / TM * (BN / TN))
    matmul_tiled(T* c, const T* a, const T* b, long long m) {
  using Access = Pack<T, VEC>;
  constexpr int kThreads = BM / TM * (BN / TN);
  constexpr int kGroupM = TM < 4 ? TM : 4;
  constexpr int kGroupN = TN < 4 ? TN : 4;
  using RowsOfA = Pack<float, kGroupM>;
  using ColsOfB = Pack<float, kGroupN>;
  // The strip of a is stored transposed, so that both are read along their rows. 4 more floats keep
  // rows 16-byte aligned and spread the transposing writes over the banks.
  __shared__ __align__(16) float strip_a[BK][BM + 4];
  __shared__ __align__(16) float strip_b[BK][BN];

  constexpr int kTilesN = (N + BN - 1) / BN;
  const long long first_row = blockIdx.x / kTilesN * static_cast<long long>(BM);
  const int first_col = static_cast<int>(blockIdx.x % kTilesN) * BN;
  const int thread = static_cast<int>(threadIdx.x);
  const int thread_m = thread / (BN / TN);
  const int thread_n = thread % (BN / TN);

  float sums[TM][TN] = {};
  for (int first_k = 0; first_k < K; first_k += BK) {
    // N and K are multiples of VEC: an access lies inside or outside as a whole. What lies outside
    // is 0 and adds nothing.
#pragma unroll
    for (int at = thread; at < BM * BK / VEC; at += kThreads) {
      const int row = at / (BK / VEC);
      const int k = at % (BK / VEC) * VEC;
      const bool inside = first_row + row < m && first_k + k < K;
      Access pack;
      if (inside) pack = *reinterpret_cast<const Access*>(a + (first_row + row) * K + first_k + k);
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        strip_a[k + j][row] = inside ? static_cast<float>(pack.values[j]) : 0.0f;
      }
    }
#pragma unroll
    for (int at = thread; at < BK * BN / VEC; at += kThreads) {
      const int k = at / (BN / VEC);
      const int col = at % (BN / VEC) * VEC;
      const bool inside = first_k + k < K && first_col + col < N;
      Access pack;
      if (inside) {
        pack = *reinterpret_cast<const Access*>(b + static_cast<long long>(first_k + k) * N +
                                                first_col + col);
      }
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        strip_b[k][col + j] = inside ? static_cast<float>(pack.values[j]) : 0.0f;
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      RowsOfA of_a[TM / kGroupM];
      ColsOfB of_b[TN / kGroupN];
#pragma unroll
      for (int i = 0; i < TM / kGroupM; ++i) {
        of_a[i] =
            *reinterpret_cast<const RowsOfA*>(&strip_a[k][Position<BM, TM>(thread_m, i * kGroupM)]);
      }
#pragma unroll
      for (int j = 0; j < TN / kGroupN; ++j) {
        of_b[j] =
            *reinterpret_cast<const ColsOfB*>(&strip_b[k][Position<BN, TN>(thread_n, j * kGroupN)]);
      }
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
          sums[i][j] +=
              of_a[i / kGroupM].values[i % kGroupM] * of_b[j / kGroupN].values[j % kGroupN];
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const long long row = first_row + Position<BM, TM>(thread_m, i);
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int col = first_col + Position<BN, TN>(thread_n, j);
      if (row < m && col < N) c[row * N + col] = static_cast<T>(sums[i][j]);
    }
  }
}

template <typename T, int N, int K>
__global__ void matmul_reference(T* c, const T* a, const T* b, long long m) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= m * N) return;
  const long long row = i / N;
  const long long col = i % N;
  double sum = 0.0;
  for (long long k = 0; k < K; ++k) {
    sum += static_cast<double>(static_cast<float>(a[row * K + k])) *
           static_cast<float>(b[k * N + col]);
  }
  c[i] = static_cast<T>(static_cast<float>(sum));
}
