// y = x / scale in fp8 (e4m3), for every element of a dense matrix of rows of COLS elements.
//
// What shares a scale is a segment: 128 columns of a row (the last of a row may have fewer), or a whole
// row. THREADS threads share a segment, SEGMENTS segments share a block. With KEEP a segment stays in
// registers between the search for its largest magnitude and its conversion; without, it is read again.
// A scale that is given leaves only the conversion.
#include "merge.cuh"
#include "quantize.cuh"

enum class Scale { tensor, row, block };

template <typename T, int COLS, Scale SCALE, int THREADS, int SEGMENTS, int VEC, int KEEP>
__global__ void __launch_bounds__(THREADS* SEGMENTS)
    quantize_fp8(__nv_fp8_e4m3* y, float* scales, const T* x, const float* tensor_scale,
                 long long rows) {
  constexpr int kLength = SCALE == Scale::block ? 128 : COLS;
  constexpr int kPerRow = (COLS + kLength - 1) / kLength;
  constexpr int kLanes = THREADS < 32 ? THREADS : 32;  // of a warp, on one segment
  constexpr int kWarps = THREADS / kLanes;             // on one segment
  constexpr int kAccesses = ((kLength < COLS ? kLength : COLS) / VEC + THREADS - 1) / THREADS;
  constexpr int kBatch = KEEP || kAccesses < 4 ? kAccesses : 4;  // accesses in flight
  const int lane = static_cast<int>(threadIdx.x) % THREADS;
  const int place = static_cast<int>(threadIdx.x) / THREADS;
  const long long segment = static_cast<long long>(blockIdx.x) * SEGMENTS + place;
  const int in_row = static_cast<int>(segment % kPerRow);
  const long long begin = segment / kPerRow * COLS + static_cast<long long>(in_row) * kLength;
  const int length = in_row == kPerRow - 1 ? COLS - in_row * kLength : kLength;
  // Threads of a missing segment stay, because shuffles and barriers want whole warps and blocks.
  const int accesses = segment < rows * kPerRow ? length / VEC : 0;
  const T* const from = x + begin;

  Pack<T, VEC> packs[kBatch];
  if constexpr (KEEP) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = lane + i * THREADS;
      if (at < accesses) packs[i] = LoadPack<VEC>(from + at * VEC);
    }
  }

  float scale;
  if constexpr (SCALE == Scale::tensor) {
    scale = tensor_scale != nullptr ? *tensor_scale : 1.0f;
  } else {
    float amax = 0.0f;
    if constexpr (KEEP) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (lane + i * THREADS < accesses) amax = MaxMagnitude(amax, packs[i]);
      }
    } else {
#pragma unroll 4
      for (int at = lane; at < accesses; at += THREADS) {
        amax = MaxMagnitude(amax, LoadPack<VEC>(from + at * VEC));
      }
    }
    amax = MergeLanes<kLanes>(amax, Max());
    if constexpr (kWarps > 1) {
      __shared__ float of_warp[SEGMENTS][kWarps];
      if (lane % kLanes == 0) of_warp[place][lane / kLanes] = amax;
      __syncthreads();
#pragma unroll
      for (int w = 0; w < kWarps; ++w) amax = fmaxf(amax, of_warp[place][w]);
    }
    scale = ScaleOf(amax);
    if (lane == 0 && accesses > 0 && scales != nullptr) scales[segment] = scale;
  }
  const float inverse = 1.0f / scale;

  // Backwards, because what was read last is what a cache still has.
#pragma unroll 1
  for (int batch = (kAccesses - 1) / kBatch * kBatch; batch >= 0; batch -= kBatch) {
    if constexpr (!KEEP) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int at = lane + (batch + i) * THREADS;
        if (at < accesses) packs[i] = LoadPack<VEC>(from + at * VEC);
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = lane + (batch + i) * THREADS;
      if (at < accesses) StorePack(y + begin + at * VEC, Quantize(packs[i], inverse));
    }
  }
}

// One thread a segment. Bits are those of the definition, in single precision step by step.
template <typename T, int COLS, Scale SCALE>
__global__ void quantize_fp8_reference(__nv_fp8_e4m3* y, float* scales, const T* x,
                                       const float* tensor_scale, long long rows) {
  const int width = SCALE == Scale::block ? 128 : COLS;
  const int per_row = (COLS + width - 1) / width;
  const long long segment = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (segment >= rows * per_row) return;
  const long long row = segment / per_row;
  const long long first = segment % per_row * width;
  const long long end = first + width < COLS ? first + width : COLS;
  float scale = tensor_scale != nullptr ? *tensor_scale : 1.0f;
  if (SCALE != Scale::tensor) {
    float amax = 0.0f;
    for (long long c = first; c < end; ++c) {
      const float v = static_cast<float>(x[row * COLS + c]);
      if (fabsf(v) > amax) amax = fabsf(v);
    }
    scale = fmaxf(__fdiv_rn(amax, kFp8Max), kSmallestScale);
    if (scales != nullptr) scales[segment] = scale;
  }
  for (long long c = first; c < end; ++c) {
    const float v = static_cast<float>(x[row * COLS + c]);
    y[row * COLS + c] = static_cast<__nv_fp8_e4m3>(__fmul_rn(v, __fdiv_rn(1.0f, scale)));
  }
}
