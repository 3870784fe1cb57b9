// y = x * scale for every fp8 (e4m3) element of a dense matrix of rows of COLS elements; a scale is
// shared by the whole matrix, a row, or 128 columns of a row (the last of a row may have fewer).
//
// Elements are counted through the whole matrix. One tile a block; neighbouring threads take
// neighbouring accesses of VEC elements, which never cross a scale's border.
#include "quantize.cuh"

enum class Scale { tensor, row, block };

// Which scale element `element` has. 32-bit divisions where they do.
template <int COLS, Scale SCALE>
__device__ inline long long ScaleIndex(long long element, bool small) {
  if constexpr (SCALE == Scale::tensor) return 0;
  if constexpr (SCALE == Scale::block && COLS % 128 == 0) return element / 128;
  const long long row = small ? static_cast<unsigned int>(element) / static_cast<unsigned int>(COLS)
                              : element / COLS;
  if constexpr (SCALE == Scale::row) return row;
  return row * ((COLS + 127) / 128) + (element - row * COLS) / 128;
}

template <typename T, int COLS, Scale SCALE, int XBLOCK, int VEC, int ITEMS>
__global__ void __launch_bounds__(XBLOCK)
    dequantize_fp8(T* y, const __nv_fp8_e4m3* x, const float* scales, long long rows) {
  const long long n = rows * COLS;
  const bool small = n <= 0xffffffffLL;
  const long long begin =
      (static_cast<long long>(blockIdx.x) * XBLOCK * ITEMS + static_cast<int>(threadIdx.x)) * VEC;
  Pack<__nv_fp8_e4m3, VEC> packs[ITEMS];
  float scale[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long at = begin + i * (XBLOCK * VEC);
    if (at >= n) continue;
    packs[i] = LoadPack<VEC>(x + at);
    scale[i] = scales[ScaleIndex<COLS, SCALE>(at, small)];
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long at = begin + i * (XBLOCK * VEC);
    if (at >= n) continue;
    float values[VEC];
#pragma unroll
    for (int j = 0; j < VEC; ++j) values[j] = static_cast<float>(packs[i].values[j]) * scale[i];
    StorePack(y + at, ToPack<T>(values));
  }
}

template <typename T, int COLS, Scale SCALE>
__global__ void dequantize_fp8_reference(T* y, const __nv_fp8_e4m3* x, const float* scales,
                                         long long rows) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * COLS) return;
  const long long row = at / COLS;
  const long long col = at % COLS;
  const long long index = SCALE == Scale::tensor ? 0
                          : SCALE == Scale::row  ? row
                                                 : row * ((COLS + 127) / 128) + col / 128;
  const double product = static_cast<double>(static_cast<float>(x[at])) * scales[index];
  y[at] = static_cast<T>(static_cast<float>(product));
}
