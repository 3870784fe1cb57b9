// Normalisation of every row, with what models do around it in the same pass: the residual that is
// added before, and the fp8 scales that are found after.
//
//   h = x + residual        rounded to T, returned                     (RESIDUAL)
//   z = h / sqrt(mean of h^2 + eps)                                    (CENTERED false: rmsnorm)
//   z = (h - mean of h) / sqrt(variance of h + eps)                    (CENTERED true: layernorm)
//   y = z * weight + bias
//   y / scale in fp8, scale = largest |y| of the row or of each 128 columns / 448   (OUT is e4m3)
#pragma once

// Only results in fp8 want cuda_fp8.h. NORM_OUT: the type of results.
#define HONE_CONCAT_2(a, b) a##b
#define HONE_CONCAT(a, b) HONE_CONCAT_2(a, b)
#define IS_FP8___nv_fp8_e4m3 1
#define FP8_TYPES HONE_CONCAT(IS_FP8_, NORM_OUT)
#include "quantize.cuh"
#include "row.cuh"

// What has a scale of its own.
enum Scales { per_row, per_block };
constexpr int kBlockCols = 128;

template <typename T, typename OUT>
struct NormArguments {
  OUT* y;
  T* h;            // may be null
  float* y_scale;  // may be null
  const T* x;
  const T* residual;  // may be null
  const T* weight;
  const T* bias;  // may be null
  float eps;
  long long rows;
};

// Accesses that a thread has in flight where it does not keep them.
constexpr int kNormBatch = 4;

template <bool CENTERED, typename T, typename OUT, int COLS, bool RESIDUAL, Scales SCALES,
          int THREADS, int ROWS, int CLUSTER, int VEC, int KEEP, int CACHE>
struct Norm {
  static constexpr bool kQuantised = sizeof(OUT) == 1;
  static constexpr bool kBlocks = kQuantised && SCALES == per_block;
  using Group = RowGroup<THREADS, ROWS, CLUSTER>;
  // Lanes of a warp take the columns of a scale together, in kRun accesses each.
  static constexpr int kRun =
      kBlocks && Group::kLanes * VEC < kBlockCols ? kBlockCols / (Group::kLanes * VEC) : 1;
  static constexpr int kLanesOfBlock = kBlockCols / VEC / kRun;
  using Columns = RowColumns<COLS, VEC, THREADS, CLUSTER, kRun>;
  using Access = Pack<T, VEC>;
  static_assert(!kBlocks || !Columns::kPeeled,
                "scales of 128 columns want accesses that begin with them");
  static constexpr int kAccesses = Columns::kAccesses;
  static constexpr int kBatch = KEEP ? kAccesses : kRun > kNormBatch ? kRun : kNormBatch;
  // Few enough registers to have weights wait for the reduction rather than be waited for after it.
  static constexpr bool kEarly = KEEP && kAccesses * sizeof(Access) <= 32;

  const NormArguments<T, OUT>& to_do;
  const Group group;
  const Columns columns;
  const long long first;  // element of the row
  Access kept[kBatch];
  Access weights[kEarly ? kBatch : 1];
  Access biases[kEarly && CENTERED ? kBatch : 1];
  float mean = 0.0f;
  float factor = 0.0f;

  __device__ explicit Norm(const NormArguments<T, OUT>& arguments)
      : to_do(arguments), group(arguments.rows), columns(group), first(group.row * COLS) {}

  // Reads accesses from `i` on and adds their residual.
  template <int HINT>
  __device__ void Fetch(int i) {
#pragma unroll
    for (int n = 0; n < kBatch; ++n) kept[n] = columns.template Load<HINT>(to_do.x + first, i + n);
    if constexpr (RESIDUAL) {
      if (to_do.residual == nullptr) return;
      Access residuals[kBatch];
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        residuals[n] = columns.template Load<HINT>(to_do.residual + first, i + n);
      }
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        float sums[VEC];
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
          sums[j] =
              static_cast<float>(kept[n].values[j]) + static_cast<float>(residuals[n].values[j]);
        }
        kept[n] = ToPack<T>(sums);
      }
    }
  }

  // The same again, LAST: and not once more. h may be where the residual was.
  template <bool LAST>
  __device__ void Refetch(int i) {
    if constexpr (!KEEP) {
      const bool summed = RESIDUAL && to_do.h != nullptr;
      constexpr int kHint = LAST ? kLastOf<CACHE> : CACHE;
      constexpr int kSumHint = CACHE == kCacheLevel2 ? kHint : kCachePlain;
      if (!summed) Fetch<kHint>(i);
#pragma unroll
      for (int n = 0; summed && n < kBatch; ++n) {
        kept[n] = columns.template Load<kSumHint>(to_do.h + first, i + n);
      }
    }
  }

  __device__ void StoreSums(int i) {
    if constexpr (RESIDUAL) {
      if (to_do.h == nullptr) return;
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        columns.template Store<KEEP ? CACHE : kCachePlain>(to_do.h + first, i + n, kept[n]);
      }
    }
  }

  __device__ void FetchWeights() {
    if constexpr (kEarly) {
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        weights[n] = columns.LoadVector(to_do.weight, n);
        if constexpr (CENTERED) {
          if (to_do.bias != nullptr) biases[n] = columns.LoadVector(to_do.bias, n);
        }
      }
    }
  }

  __device__ void FindStatistics() {
    if constexpr (CENTERED) {
      WarpMoments<VEC, Group, Columns> moments;
#pragma unroll 1
      for (int i = 0; i < kAccesses; i += kBatch) {
        Fetch<CACHE>(i);
        FetchWeights();
        moments.Add(kept, i, columns);
        StoreSums(i);
      }
      const Moments<float> all = group.template MergeWarps<0>(moments.Of(), MergeMoments());
      mean = all.mean;
      factor = 1.0f / sqrtf(all.squares * (1.0f / COLS) + to_do.eps);
    } else {
      float squares[VEC] = {};
#pragma unroll 1
      for (int i = 0; i < kAccesses; i += kBatch) {
        Fetch<CACHE>(i);
        FetchWeights();
#pragma unroll
        for (int n = 0; n < kBatch; ++n) {
#pragma unroll
          for (int j = 0; j < VEC; ++j) {
            const float v = static_cast<float>(kept[n].values[j]);
            squares[j] += v * v;
          }
        }
        StoreSums(i);
      }
#pragma unroll
      for (int j = 1; j < VEC; ++j) squares[0] += squares[j];
      const float all = group.template Reduce<0>(squares[0], Sum());
      factor = 1.0f / sqrtf(all * (1.0f / COLS) + to_do.eps);
    }
  }

  // Access `i`, kept at `n`, normalised.
  __device__ void Normalise(int i, int n, float (&values)[VEC]) const {
    const Access weight = kEarly ? weights[kEarly ? n : 0] : columns.LoadVector(to_do.weight, i);
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      values[j] = (static_cast<float>(kept[n].values[j]) - mean) * factor *
                  static_cast<float>(weight.values[j]);
    }
    if constexpr (CENTERED) {
      if (to_do.bias == nullptr) return;
      const Access bias = kEarly ? biases[kEarly ? n : 0] : columns.LoadVector(to_do.bias, i);
#pragma unroll
      for (int j = 0; j < VEC; ++j) values[j] += static_cast<float>(bias.values[j]);
    }
  }

  // Of access `i`; what lies outside of the row counts nothing.
  __device__ float Largest(const float (&values)[VEC], int i) const {
    float largest = 0.0f;
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      if (columns.Inside(i, j)) largest = fmaxf(largest, fabsf(values[j]));
    }
    return largest;
  }

  // What to multiply by; 0 where all is 0, or so small that its inverse is infinite.
  __device__ static float InverseOf(float scale) {
    return scale >= kSmallestScale ? 1.0f / scale : 0.0f;
  }

  __device__ float FindRowScale() {
    float largest = 0.0f;
#pragma unroll 1
    for (int i = 0; i < kAccesses; i += kBatch) {
      Refetch<false>(i);
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        float values[VEC];
        Normalise(i + n, n, values);
        largest = fmaxf(largest, Largest(values, i + n));
      }
    }
    if constexpr (KEEP) KeepPacked(kept);
    const float scale = group.template Reduce<1>(largest, Max()) * (1.0f / kFp8Max);
    if (group.thread == 0 && group.rank == 0 && group.exists && to_do.y_scale != nullptr) {
      to_do.y_scale[group.row] = scale;
    }
    return InverseOf(scale);
  }

  // Of the 128 columns that kRun accesses from `i` on belong to.
  __device__ float FindBlockScale(const float (&values)[kRun][VEC], int i) const {
    float largest = 0.0f;
#pragma unroll
    for (int s = 0; s < kRun; ++s) largest = fmaxf(largest, Largest(values[s], i + s));
    const float scale = MergeLanes<kLanesOfBlock>(largest, Max()) * (1.0f / kFp8Max);
    const int column = columns.First(i);
    if (group.thread % kLanesOfBlock == 0 && columns.Has(column) && to_do.y_scale != nullptr) {
      constexpr long long kBlocksOfRow = (COLS + kBlockCols - 1) / kBlockCols;
      to_do.y_scale[group.row * kBlocksOfRow + column / kBlockCols] = scale;
    }
    return InverseOf(scale);
  }

  __device__ void Run() {
    FindStatistics();
    if constexpr (KEEP) KeepPacked(kept);
    float inverse = kQuantised && !kBlocks ? FindRowScale() : 1.0f;
    // Backwards, because what was read last is what a cache still has.
    constexpr int kLast = (kAccesses - 1) / kBatch * kBatch;
#pragma unroll 1
    for (int i = kLast; i >= 0; i -= kBatch) {
      Refetch<true>(i);
#pragma unroll
      for (int n = 0; n < kBatch; n += kRun) {
        float values[kRun][VEC];
#pragma unroll
        for (int s = 0; s < kRun; ++s) Normalise(i + n + s, n + s, values[s]);
        if constexpr (kBlocks) inverse = FindBlockScale(values, i + n);
#pragma unroll
        for (int s = 0; s < kRun; ++s) {
          if constexpr (kQuantised) {
#pragma unroll
            for (int j = 0; j < VEC; ++j) values[s][j] *= inverse;
          }
          columns.template Store<CACHE>(to_do.y + first, i + n + s, ToPack<OUT>(values[s]));
        }
      }
    }
  }
};

// Simple, in double precision, one thread a row.
template <bool CENTERED, typename T, typename OUT, int COLS, bool RESIDUAL, Scales SCALES>
__device__ void NormReference(const NormArguments<T, OUT>& to_do) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= to_do.rows) return;
  const long long first = row * COLS;
  const auto input = [&](int c) {
    float v = static_cast<float>(to_do.x[first + c]);
    if (RESIDUAL && to_do.residual != nullptr) v += static_cast<float>(to_do.residual[first + c]);
    return static_cast<T>(v);
  };
  double mean = 0.0;
  for (int c = 0; CENTERED && c < COLS; ++c) mean += static_cast<float>(input(c));
  mean /= COLS;
  double squares = 0.0;
  for (int c = 0; c < COLS; ++c) {
    const double apart = static_cast<float>(input(c)) - mean;
    squares += apart * apart;
  }
  const double factor = 1.0 / sqrt(squares / COLS + to_do.eps);
  const auto output = [&](int c) {
    const double z = (static_cast<float>(input(c)) - mean) * factor;
    const bool biased = CENTERED && to_do.bias != nullptr;
    return z * static_cast<float>(to_do.weight[c]) +
           (biased ? static_cast<float>(to_do.bias[c]) : 0.0f);
  };
  constexpr int kCols = SCALES == per_block ? kBlockCols : COLS;
  constexpr int kCount = (COLS + kCols - 1) / kCols;
  for (int b = 0; b < kCount; ++b) {
    double scale = 1.0;
    if constexpr (sizeof(OUT) == 1) {
      double largest = 0.0;
      for (int c = b * kCols; c < COLS && c < (b + 1) * kCols; ++c) {
        largest = fmax(largest, fabs(output(c)));
      }
      scale = largest / kFp8Max;
      if (to_do.y_scale != nullptr) to_do.y_scale[row * kCount + b] = static_cast<float>(scale);
    }
    for (int c = b * kCols; c < COLS && c < (b + 1) * kCols; ++c) {
      const double y = scale > 0.0 ? output(c) / scale : 0.0;
      to_do.y[first + c] = static_cast<OUT>(static_cast<float>(y));
    }
  }
  // Last, because it may be where the residual was.
  for (int c = 0; RESIDUAL && to_do.h != nullptr && c < COLS; ++c) to_do.h[first + c] = input(c);
}
