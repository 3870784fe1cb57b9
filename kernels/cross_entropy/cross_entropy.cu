// loss[r] = lse[r] - x[r][target[r]], lse[r] = log(sum of exp(x[r][c]) over row r), computed in
// float. A row whose target is ignore_index has loss 0; with another target outside of the row its
// loss is NaN. lse may be null.
//
// A row is read once; a thread has ITEMS accesses in flight.
#include "softmax.cuh"

template <typename T, typename I, int COLS, int THREADS, int ROWS, int CLUSTER, int VEC, int ITEMS>
__global__ void __launch_bounds__(THREADS* ROWS)
    cross_entropy(float* loss, float* lse, const T* x, const I* target, long long ignore_index,
                  long long rows) {
  const RowGroup<THREADS, ROWS, CLUSTER> group(rows);
  const RowColumns<COLS, VEC, THREADS, CLUSTER> columns(group);
  const T* const from = x + group.row * COLS;
  const bool writes = group.thread == 0 && group.rank == 0 && group.exists;
  // Early, to wait for it while the row is read.
  long long chosen = 0;
  float logit = 0.0f;
  if (writes) {
    chosen = static_cast<long long>(target[group.row]);
    if (chosen >= 0 && chosen < COLS) logit = static_cast<float>(from[chosen]);
  }

  Exponentials mine = {kLowest, 0.0f};
#pragma unroll 1
  for (int i = 0; i < columns.kAccesses; i += ITEMS) {
    Pack<T, VEC> packs[ITEMS];
#pragma unroll
    for (int n = 0; n < ITEMS; ++n) {
      packs[n] = columns.template Load<kCachePlain>(from, i + n, -Infinity());
    }
    float values[ITEMS][VEC];
#pragma unroll
    for (int n = 0; n < ITEMS; ++n) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) values[n][j] = static_cast<float>(packs[n].values[j]);
    }
    Add(values, mine);
  }
  const Exponentials all = group.template Reduce<0>(mine, MergeExponentials());

  if (writes) {
    const float log_sum = logf(all.sum);
    const bool inside = chosen >= 0 && chosen < COLS;
    loss[group.row] = chosen == ignore_index ? 0.0f
                      : inside               ? all.max - logit + log_sum
                                             : __int_as_float(0x7fc00000);
    if (lse != nullptr) lse[group.row] = all.max + log_sum;
  }
}

template <typename T, typename I, int COLS>
__global__ void cross_entropy_reference(float* loss, float* lse, const T* x, const I* target,
                                        long long ignore_index, long long rows) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const auto at = [&](long long c) -> double { return static_cast<float>(x[row * COLS + c]); };
  double max = at(0);
  for (int c = 1; c < COLS; ++c) max = fmax(max, at(c));
  double sum = 0.0;
  for (int c = 0; c < COLS; ++c) sum += exp(at(c) - max);
  const double all = max + log(sum);
  const long long chosen = static_cast<long long>(target[row]);
  double result = 0.0;
  if (chosen != ignore_index) result = chosen < 0 || chosen >= COLS ? nan("") : all - at(chosen);
  loss[row] = static_cast<float>(result);
  if (lse != nullptr) lse[row] = static_cast<float>(all);
}
