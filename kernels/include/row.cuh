// Rows of dense matrices, each shared by a group of threads: which columns a thread takes, how it
// loads and stores them, and what the group finds out together.
//
// THREADS threads of a block share a row, or of each of the CLUSTER blocks of a cluster (sm_90 and
// later; 1 elsewhere). A block has ROWS rows, one where it belongs to a cluster. The grid has
// CLUSTER blocks for every ROWS rows.
#pragma once

#include "merge.cuh"
#include "pack.cuh"

// PTX ISA, barrier.cluster: the arrival releases, the wait acquires, by default.
__device__ inline void ArriveAtCluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
#endif
}
__device__ inline void WaitForCluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// Writes `value` where block `rank` of the cluster has what this block has at `mine`.
template <typename V>
__device__ inline void StoreToBlock(int rank, V* mine, const V& value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const Words<V> from(value);
  unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(mine));
  asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(V) / 4); ++i) {
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address + 4 * i), "r"(from.words[i])
                 : "memory");
  }
#endif
}

// The threads that share this thread's row.
template <int THREADS, int ROWS, int CLUSTER>
struct RowGroup {
  static_assert(CLUSTER == 1 || ROWS == 1, "a cluster has one row");
  static constexpr int kLanes = THREADS < 32 ? THREADS : 32;  // of a warp, on one row
  static constexpr int kWarps = THREADS / kLanes;             // of a block, on one row

  const int thread;        // among those of this block on the row
  const int row_in_block;
  const int rank;          // of this block in its cluster
  const long long row;
  // Threads of a missing row stay, because shuffles and barriers want whole warps and blocks.
  const bool exists;

  __device__ explicit RowGroup(long long rows)
      : thread(static_cast<int>(threadIdx.x) % THREADS),
        row_in_block(static_cast<int>(threadIdx.x) / THREADS),
        rank(static_cast<int>(blockIdx.x % CLUSTER)),
        row(static_cast<long long>(blockIdx.x / CLUSTER) * ROWS + row_in_block),
        exists(ROWS == 1 || row < rows) {
    // Waited for where the first reduction writes to the other blocks: they have to have started.
    if constexpr (CLUSTER > 1) ArriveAtCluster();
  }

  // Merges the values of all threads on the row, in an order that only THREADS and CLUSTER decide;
  // all get the result. NUMBER counts the calls of a kernel: 0, 1, ... One barrier, or none within
  // a warp: a call uses the slots of the call before the last, which every thread has read by then.
  template <int NUMBER, typename V, typename Merge>
  __device__ V Reduce(V value, Merge merge) const {
    return MergeWarps<NUMBER>(MergeLanes<kLanes>(value, merge), merge);
  }

  // The same of values that all lanes of a warp have already.
  template <int NUMBER, typename V, typename Merge>
  __device__ V MergeWarps(V value, Merge merge) const {
    constexpr int kSlots = kWarps * CLUSTER;
    if constexpr (kSlots > 1) {
      V* const slots = Slots<NUMBER % 2, V>() + row_in_block * kSlots;
      const int lane = thread % kLanes;
      if constexpr (CLUSTER == 1) {
        if (lane == 0) slots[thread / kLanes] = value;
        __syncthreads();
      } else {
        if constexpr (NUMBER == 0) WaitForCluster();
        if (lane < CLUSTER) StoreToBlock(lane, slots + rank * kWarps + thread / kLanes, value);
        ArriveAtCluster();
        WaitForCluster();
      }
      value = slots[lane % kSlots];
#pragma unroll
      for (int i = 32; i < kSlots; i += 32) value = merge(value, slots[lane + i]);
      value = MergeLanes<kSlots < 32 ? kSlots : 32>(value, merge);
    }
    return value;
  }

 private:
  template <int PARITY, typename V>
  __device__ static V* Slots() {
    __shared__ V slots[ROWS * kWarps * CLUSTER];
    return slots;
  }
};

// The columns of one thread, in accesses of VEC elements that the threads of a row take in turn, or
// RUN at a time a warp. Where COLS is no multiple of VEC, rows begin between the addresses that an
// access may have: accesses then begin at the last one before the row, and those that cross one of
// its ends are made element by element.
template <int COLS, int VEC, int THREADS, int CLUSTER, int RUN = 1>
struct RowColumns {
  static constexpr bool kPeeled = COLS % VEC != 0;
  static constexpr int kLanes = THREADS < 32 ? THREADS : 32;
  static constexpr int kTurn = THREADS * CLUSTER * RUN;  // accesses of all threads in one turn
  static constexpr int kAccesses =                       // of a thread, at most
      ((kPeeled ? COLS + VEC - 1 : COLS) + VEC * kTurn - 1) / (VEC * kTurn) * RUN;

  const bool exists;
  const int begin;  // column of access 0

  template <int ROWS>
  __device__ explicit RowColumns(const RowGroup<THREADS, ROWS, CLUSTER>& group)
      : exists(group.exists),
        begin(((group.rank * THREADS + group.thread / kLanes * kLanes) * RUN +
               group.thread % kLanes) * VEC -
              static_cast<int>(group.row % VEC) * (COLS % VEC) % VEC) {}

  // The first column of access `i`; negative where it begins before the row.
  __device__ int First(int i) const { return begin + (i / RUN * kTurn + i % RUN * kLanes) * VEC; }
  __device__ bool Has(int column) const { return exists && column >= 0 && column < COLS; }
  // Every thread's access `i` lies within the row.
  __device__ static constexpr bool AllWhole(int i) {
    return (i / RUN + 1) * kTurn <= COLS / VEC && (!kPeeled || i >= RUN);
  }
  __device__ bool Whole(int i) const {
    if (i >= kAccesses || !exists) return false;
    return AllWhole(i) || ((!kPeeled || First(i) >= 0) && First(i) + VEC <= COLS);
  }
  // Element `j` of access `i` lies within the row.
  __device__ bool Inside(int i, int j) const {
    return Whole(i) || (kPeeled && i < kAccesses && Has(First(i) + j));
  }
  // How many elements of access `i` do.
  __device__ int Count(int i) const {
    if (!kPeeled || Whole(i)) return Whole(i) ? VEC : 0;
    int count = 0;
#pragma unroll
    for (int j = 0; j < VEC; ++j) count += Inside(i, j);
    return count;
  }

  // Access `i` of the row at `from`, `outside` in place of what lies outside of the row.
  template <int CACHE, typename T>
  __device__ Pack<T, VEC> Load(const T* from, int i, float outside = 0.0f) const {
    if (Whole(i)) return LoadPack<VEC, CACHE>(from + First(i));
    return LoadSingly(from, i, outside);
  }

  // The same of a vector of COLS elements for all rows, which has no part in their addresses.
  template <typename T>
  __device__ Pack<T, VEC> LoadVector(const T* from, int i, float outside = 0.0f) const {
    if (!kPeeled && Whole(i)) return LoadPack<VEC>(from + First(i));
    return LoadSingly(from, i, outside);
  }

  template <int CACHE, typename T>
  __device__ void Store(T* to, int i, const Pack<T, VEC>& pack) const {
    if (Whole(i)) {
      StorePack<CACHE>(to + First(i), pack);
    } else if constexpr (kPeeled) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        if (Inside(i, j)) to[First(i) + j] = pack.values[j];
      }
    }
  }

 private:
  template <typename T>
  __device__ Pack<T, VEC> LoadSingly(const T* from, int i, float outside) const {
    Pack<T, VEC> pack;
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      pack.values[j] = Inside(i, j) ? from[First(i) + j] : static_cast<T>(outside);
    }
    return pack;
  }
};

// Has the compiler keep what was loaded rather than floats made of it, which take twice the registers
// for 16-bit types.
template <typename T, int VEC, int N>
__device__ inline void KeepPacked(Pack<T, VEC> (&packs)[N]) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 2 && VEC % 2 == 0) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int w = 0; w < VEC / 2; ++w) {
        asm volatile("" : "+r"(reinterpret_cast<unsigned int*>(&packs[n])[w]));
      }
    }
  }
#endif
}

// The moments of what the lanes of a warp read of one row: sums of differences from a number near their
// mean, the average of one element of each lane. An element is at most sqrt(count) deviations from the
// mean (Samuelson's inequality), this average seldom more than one: little cancels. Fewer lanes add up
// longer sums, so that each begins anew with every call and merges its moments.
template <int VEC, typename Group, typename Columns>
class WarpMoments {
 public:
  // Accesses from `i` on, the first ones first.
  template <typename T, int N>
  __device__ void Add(const Pack<T, VEC> (&packs)[N], int i, const Columns& columns) {
    if (kFew || i == 0) pivot_ = SomeMean(packs);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if constexpr (kCounted) count_ += columns.Count(i + n);
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        float apart = static_cast<float>(packs[n].values[j]) - pivot_;
        if (!columns.Inside(i + n, j)) apart = 0.0f;
        sums_[j % kWays] += apart;
        squares_[j % kWays] += apart * apart;
      }
    }
    if constexpr (kFew) {
      merged_ = MergeMoments()(
          merged_, From(static_cast<float>(count_), Total(sums_), Total(squares_)));
      count_ = 0;
#pragma unroll
      for (int j = 0; j < kWays; ++j) sums_[j] = squares_[j] = 0.0f;
    }
  }

  // All lanes get them.
  __device__ Moments<float> Of() const {
    if constexpr (kFew) {
      return MergeLanes<Group::kLanes>(merged_, MergeMoments());
    } else {
      float count = 32 * Columns::kAccesses * VEC;
      if constexpr (kCounted) count = MergeLanes<32>(static_cast<float>(count_), Sum());
      return From(count, MergeLanes<32>(Total(sums_), Sum()), MergeLanes<32>(Total(squares_), Sum()));
    }
  }

 private:
  static constexpr bool kFew = Group::kLanes < 32;
  static constexpr bool kCounted = kFew || !Columns::AllWhole(Columns::kAccesses - 1);
  static constexpr int kWays = VEC < 4 ? VEC : 4;  // additions that do not wait for each other

  template <typename T, int N>
  __device__ static float SomeMean(const Pack<T, VEC> (&packs)[N]) {
    const float mine = static_cast<float>(packs[0].values[VEC - 1]);
    return kFew ? mine : MergeLanes<Group::kLanes>(mine, Sum()) * (1.0f / Group::kLanes);
  }

  __device__ static float Total(const float (&values)[kWays]) {
    float total = values[0];
#pragma unroll
    for (int j = 1; j < kWays; ++j) total += values[j];
    return total;
  }

  // Of sums of differences from pivot_ and of their squares.
  __device__ Moments<float> From(float count, float sum, float squares) const {
    if (count == 0.0f) return {};
    const float apart = __fdividef(sum, count);
    return {count, pivot_ + apart, fmaxf(squares - sum * apart, 0.0f)};
  }

  float pivot_ = 0.0f;
  float sums_[kWays] = {};
  float squares_[kWays] = {};
  int count_ = 0;
  Moments<float> merged_ = {};
};
