// One result of every row of x, computed in float:
//   sum            y[r] = the sum
//   maximum        y[r] = the largest element, NaN if there is one
//   argmax         index[r] = the first column that has it, y[r] = the element
//   mean_variance  y[r] = the mean, variance[r] = the squared differences from it divided by their
//                  number, or by one less (UNBIASED)
//
// A row is read once; a thread has ITEMS accesses in flight. Results depend on the config only, not
// on the order in which blocks run.
#include "row.cuh"

// What a thread finds in its columns.
template <Op OP>
struct Finding;

template <>
struct Finding<Op::sum> : Reduction<Op::sum, unsigned int, float> {
  template <typename T, int N, int VEC, typename Columns>
  __device__ static float Of(const Pack<T, VEC> (&packs)[N], int, const Columns&) {
    float partial[VEC] = {};
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) partial[j] += static_cast<float>(packs[n].values[j]);
    }
#pragma unroll
    for (int j = 1; j < VEC; ++j) partial[0] += partial[j];
    return partial[0];
  }
};

template <>
struct Finding<Op::maximum> : Reduction<Op::maximum, unsigned int, float> {
  template <typename T, int N, int VEC, typename Columns>
  __device__ static float Of(const Pack<T, VEC> (&packs)[N], int, const Columns&) {
    float largest = static_cast<float>(packs[0].values[0]);
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        largest = Larger()(static_cast<float>(packs[n].values[j]), largest);
      }
    }
    return largest;
  }
};

template <>
struct Finding<Op::argmax> : Reduction<Op::argmax, unsigned int, float> {
  template <typename T, int N, int VEC, typename Columns>
  __device__ static Best<unsigned int> Of(const Pack<T, VEC> (&packs)[N], int i, const Columns& columns) {
    Best<unsigned int> best = Finding::None();
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        const float value = static_cast<float>(packs[n].values[j]);
        // Columns come in order: a later one of the same value does not take its place.
        if (Beats(value, best)) best = {value, static_cast<unsigned int>(columns.First(i + n) + j)};
      }
    }
    return best;
  }
};

// What the lanes of a warp find in their row.
template <Op OP, int VEC, typename Group, typename Columns>
class WarpFinding {
 public:
  using Merge = typename Finding<OP>::Merge;
  using Value = typename Finding<OP>::Value;

  template <typename T, int N>
  __device__ void Add(const Pack<T, VEC> (&packs)[N], int i, const Columns& columns) {
    const Value more = Finding<OP>::Of(packs, i, columns);
    value_ = i == 0 ? more : Merge()(value_, more);
  }
  __device__ Value Of() const { return MergeLanes<Group::kLanes>(value_, Merge()); }

 private:
  Value value_;
};
template <int VEC, typename Group, typename Columns>
class WarpFinding<Op::mean_variance, VEC, Group, Columns> : public WarpMoments<VEC, Group, Columns> {
 public:
  using Merge = MergeMoments;
  using Value = Moments<float>;
};

template <Op OP, bool UNBIASED, typename T, int COLS, int THREADS, int ROWS, int CLUSTER,
          int VEC, int ITEMS, int CACHE>
__global__ void __launch_bounds__(THREADS* ROWS)
    row_reduce(float* y, long long* index, float* variance, const T* x, long long rows) {
  using Group = RowGroup<THREADS, ROWS, CLUSTER>;
  using Columns = RowColumns<COLS, VEC, THREADS, CLUSTER>;
  using Find = WarpFinding<OP, VEC, Group, Columns>;
  const Group group(rows);
  const Columns columns(group);
  const T* const from = x + group.row * COLS;
  const float outside = OP == Op::maximum || OP == Op::argmax ? -Infinity() : 0.0f;
  Find found;
#pragma unroll 1
  for (int i = 0; i < columns.kAccesses; i += ITEMS) {
    Pack<T, VEC> packs[ITEMS];
#pragma unroll
    for (int n = 0; n < ITEMS; ++n) {
      packs[n] = columns.template Load<CACHE>(from, i + n, outside);
    }
    found.Add(packs, i, columns);
  }
  const typename Find::Value all =
      group.template MergeWarps<0>(found.Of(), typename Find::Merge());
  if (group.thread != 0 || group.rank != 0 || !group.exists) return;
  if constexpr (OP == Op::mean_variance) {
    y[group.row] = all.mean;
    if (variance != nullptr) variance[group.row] = all.squares / (COLS - UNBIASED);
  } else if constexpr (OP == Op::argmax) {
    y[group.row] = all.value;
    // A row of -inf alone has no element that beat another.
    if (index != nullptr) index[group.row] = all.value == -Infinity() ? 0 : all.index;
  } else {
    y[group.row] = all;
  }
}

template <Op OP, bool UNBIASED, typename T, int COLS>
__global__ void row_reduce_reference(float* y, long long* index, float* variance, const T* x,
                                     long long rows) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const auto at = [&](int c) -> double { return static_cast<float>(x[row * COLS + c]); };
  double total = 0.0;
  int best = 0;
  for (int c = 0; c < COLS; ++c) {
    total += at(c);
    const bool first_nan = at(c) != at(c) && at(best) == at(best);
    if (at(c) > at(best) || first_nan) best = c;
  }
  double squares = 0.0;
  for (int c = 0; c < COLS; ++c) squares += (at(c) - total / COLS) * (at(c) - total / COLS);
  y[row] = static_cast<float>(OP == Op::sum ? total : OP == Op::mean_variance ? total / COLS : at(best));
  if (OP == Op::argmax && index != nullptr) index[row] = best;
  if (OP == Op::mean_variance && variance != nullptr) {
    variance[row] = static_cast<float>(squares / (COLS - UNBIASED));
  }
}
