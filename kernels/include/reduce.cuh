// What a reduction over many elements needs: what a thread gathers (Gathered), and what is known of some
// elements (Known), which merges. The order of merging is the launch's, so every run of the same launch
// gives the same bits.
#pragma once
#include "merge.cuh"
#include "pack.cuh"

template <Op OP>
using Rule = Reduction<OP, unsigned long long, long long>;
template <Op OP>
using Known = typename Rule<OP>::Value;

template <Op OP>
__device__ inline void MergeInto(Known<OP>& known, const Known<OP>& other) {
  known = typename Rule<OP>::Merge()(known, other);
}

// What a thread adds up, element by element: `at` counts them from 0. Element `at` has the index
// begin + at * step.
template <Op OP>
struct Gathered {
  float known = Rule<OP>::None();
  __device__ void Add(float v, int) { known = typename Rule<OP>::Merge()(v, known); }
  __device__ float Result(int, long long, long long) const { return known; }
};

template <>
struct Gathered<Op::argmax> {
  Best<unsigned int> best = {-Infinity(), 0};  // stays where all are -inf
  __device__ void Add(float v, int at) {
    if (Beats(v, best)) best = {v, static_cast<unsigned int>(at)};
  }
  __device__ Known<Op::argmax> Result(int count, long long begin, long long step) const {
    if (count == 0) return Rule<Op::argmax>::None();
    return {best.value, static_cast<unsigned long long>(begin + best.index * step)};
  }
};

// Relative to the first element, so that a large mean does not swallow the deviations.
template <>
struct Gathered<Op::mean_variance> {
  float first = 0.0f;
  float sum = 0.0f;
  float squares = 0.0f;
  __device__ void Add(float v, int at) {
    if (at == 0) first = v;
    const float d = v - first;
    sum += d;
    squares += d * d;
  }
  __device__ Known<Op::mean_variance> Result(int count, long long, long long) const {
    if (count == 0) return {};
    const float mean = sum / static_cast<float>(count);
    return {count, first + mean, fmaxf(squares - sum * mean, 0.0f)};
  }
};

// Result `at` of a reduction over `count` elements.
template <Op OP>
__device__ void StoreResult(const Known<OP>& known, long long at, bool unbiased, float* y,
                            long long* index, float* variance) {
  if constexpr (OP == Op::mean_variance) {
    const long long divisor = known.count - (unbiased ? 1 : 0);
    const float nan = __int_as_float(0x7fc00000);
    y[at] = known.count > 0 ? known.mean : nan;
    if (variance != nullptr) {
      variance[at] = divisor > 0 ? known.squares / static_cast<float>(divisor) : nan;
    }
  } else if constexpr (OP == Op::argmax) {
    y[at] = known.value;
    if (index != nullptr) index[at] = static_cast<long long>(known.index);
  } else {
    y[at] = known;
  }
}

// Adds `count` accesses, each `step` elements beyond the one before. UNROLL of them are in flight all the
// time: where a batch is loaded and then added, the compiler moves its loads to where they are needed.
template <int UNROLL, Op OP, typename T, int VEC>
__device__ void Gather(Gathered<OP> (&gathered)[VEC], const T* from, long long step, int count) {
  Pack<T, VEC> packs[UNROLL];
  const int whole = count / UNROLL * UNROLL;
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    if (whole > 0) packs[u] = LoadPack<VEC>(from + u * step);
  }
  const auto add = [&](const Pack<T, VEC>& pack, int at) {
#pragma unroll
    for (int j = 0; j < VEC; ++j) gathered[j].Add(static_cast<float>(pack.values[j]), at);
  };
#pragma unroll 1
  for (int at = 0; at < whole; at += UNROLL) {
    const bool more = at + UNROLL < whole;
    from += UNROLL * step;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      add(packs[u], at + u);
      if (more) packs[u] = LoadPack<VEC>(from + u * step);
    }
  }
#pragma unroll 1
  for (int at = whole; at < count; ++at) {
    add(LoadPack<VEC>(from), at);
    from += step;
  }
}

// Merges what the HEIGHT threads of each of WIDTH columns know; the result is theirs with y = 0.
template <int WIDTH, int HEIGHT, Op OP, int N>
__device__ void MergeOverThreads(Known<OP> (&known)[N], int x, int y) {
  __shared__ Known<OP> shared[HEIGHT > 1 ? HEIGHT / 2 : 1][WIDTH][N];
#pragma unroll
  for (int half = HEIGHT / 2; half > 0; half /= 2) {
    if (y >= half && y < 2 * half) {
#pragma unroll
      for (int j = 0; j < N; ++j) shared[y - half][x][j] = known[j];
    }
    __syncthreads();
    if (y < half) {
#pragma unroll
      for (int j = 0; j < N; ++j) MergeInto<OP>(known[j], shared[y][x][j]);
    }
    __syncthreads();
  }
}

// Merges what `chunks` blocks left of each of `cols` columns; a block of WIDTH * HEIGHT threads merges
// WIDTH columns.
template <Op OP, int WIDTH, int HEIGHT>
__device__ void MergeChunks(const void* partial, int chunks, long long cols, bool unbiased, float* y,
                            long long* index, float* variance) {
  const Known<OP>* const from = static_cast<const Known<OP>*>(partial);
  const int in_block = static_cast<int>(threadIdx.x) % WIDTH;
  const int first = static_cast<int>(threadIdx.x) / WIDTH;
  const long long col = static_cast<long long>(blockIdx.x) * WIDTH + in_block;
  Known<OP> known[1] = {Rule<OP>::None()};
  if (col < cols) {
#pragma unroll 4
    for (int chunk = first; chunk < chunks; chunk += HEIGHT) {
      MergeInto<OP>(known[0], from[chunk * cols + col]);
    }
  }
  MergeOverThreads<WIDTH, HEIGHT, OP>(known, in_block, first);
  if (first == 0 && col < cols) StoreResult<OP>(known[0], col, unbiased, y, index, variance);
}

// For references: reduces `count` elements `step` apart in double precision, with the threads of a block
// of THREADS, and stores result `at`.
template <Op OP, int THREADS, typename T>
__device__ void ReduceSimply(const T* from, long long step, long long count, long long at,
                             bool unbiased, float* y, long long* index, float* variance) {
  __shared__ double sums[THREADS];
  __shared__ double values[THREADS];
  __shared__ long long places[THREADS];
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0.0;
  double value = -Infinity();
  long long place = -1;
  for (long long i = thread; i < count; i += THREADS) {
    const double v = static_cast<float>(from[i * step]);
    sum += v;
    if (place < 0 || v > value || (v != v && value == value)) {
      value = v;
      place = i;
    }
  }
  sums[thread] = sum;
  values[thread] = value;
  places[thread] = place;
  __syncthreads();
  for (int t = 0; t < THREADS; ++t) {
    if (t == thread || places[t] < 0) continue;
    sum += sums[t];
    const bool larger = values[t] > value || (values[t] != values[t] && value == value);
    const bool equal = values[t] == value || (values[t] != values[t] && value != value);
    if (place < 0 || larger || (equal && places[t] < place)) {
      value = values[t];
      place = places[t];
    }
  }
  __syncthreads();
  const double mean = sum / static_cast<double>(count);
  if (OP == Op::mean_variance) {
    double squares = 0.0;
    for (long long i = thread; i < count; i += THREADS) {
      const double d = static_cast<float>(from[i * step]) - mean;
      squares += d * d;
    }
    sums[thread] = squares;
    __syncthreads();
    if (thread == 0) {
      for (int t = 1; t < THREADS; ++t) squares += sums[t];
      y[at] = static_cast<float>(mean);
      const double divisor = static_cast<double>(count) - (unbiased ? 1.0 : 0.0);
      if (variance != nullptr) {
        variance[at] = divisor > 0.0 ? static_cast<float>(squares / divisor) : Infinity() - Infinity();
      }
    }
    return;
  }
  if (thread != 0) return;
  y[at] = static_cast<float>(OP == Op::sum ? sum : value);
  if (OP == Op::argmax && index != nullptr) index[at] = place;
}
