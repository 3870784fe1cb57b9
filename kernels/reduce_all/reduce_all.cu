// One result of all n elements of an array.
//
// Threads of `blocks` blocks walk through it together, VEC elements at a time. What blocks know goes to
// scratch, and reduce_merge makes one of it; with one block there is nothing to merge.
#include "reduce.cuh"

template <typename T, Op OP, bool UNBIASED, int THREADS, int VEC, int UNROLL>
__global__ void __launch_bounds__(THREADS)
    reduce_all(float* y, long long* index, float* variance, const T* x, void* partial, long long n,
               int blocks) {
  const long long thread = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
  const long long threads = static_cast<long long>(blocks) * THREADS;
  const long long accesses = n / VEC;
  const int count =
      thread < accesses ? static_cast<int>((accesses - thread + threads - 1) / threads) : 0;
  Gathered<OP> gathered[VEC];
  Gather<UNROLL>(gathered, x + thread * VEC, threads * VEC, count);
  Known<OP> known[1] = {gathered[0].Result(count, thread * VEC, threads * VEC)};
#pragma unroll
  for (int j = 1; j < VEC; ++j) {
    MergeInto<OP>(known[0], gathered[j].Result(count, thread * VEC + j, threads * VEC));
  }
  // What fills no access.
  const long long rest = accesses * VEC + thread;
  if (rest < n) {
    Gathered<OP> one;
    one.Add(static_cast<float>(x[rest]), 0);
    MergeInto<OP>(known[0], one.Result(1, rest, 1));
  }
  MergeOverThreads<1, THREADS, OP>(known, 0, static_cast<int>(threadIdx.x));
  if (threadIdx.x != 0) return;
  if (blocks == 1) {
    StoreResult<OP>(known[0], 0, UNBIASED, y, index, variance);
  } else {
    static_cast<Known<OP>*>(partial)[blockIdx.x] = known[0];
  }
}

template <Op OP, bool UNBIASED>
__global__ void __launch_bounds__(1024)
    reduce_merge(float* y, long long* index, float* variance, const void* partial, int blocks) {
  MergeChunks<OP, 1, 1024>(partial, blocks, 1, UNBIASED, y, index, variance);
}

template <typename T, Op OP, bool UNBIASED>
__global__ void reduce_all_reference(float* y, long long* index, float* variance, const T* x, void*,
                                     long long n, int) {
  ReduceSimply<OP, 1024>(x, 1, n, 0, UNBIASED, y, index, variance);
}
