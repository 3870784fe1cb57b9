// fp8 (e4m3) and its scales, shared by templates that quantise.
//
// With amax the largest magnitude of the elements that share a scale, scale = amax / 448, the largest
// finite e4m3, and an element becomes x * (1 / scale), rounded to nearest even; 1 / scale is rounded to
// F32 once. Results saturate at 448; a NaN stays a NaN.
//
// With FP8_TYPES 0 there are constants only: cuda_fp8.h takes long to compile.
#pragma once

#include "pack.cuh"

constexpr float kFp8Max = 448.0f;
// The least that has a finite reciprocal.
constexpr float kSmallestScale = 1.17549435e-38f;

#if !defined(FP8_TYPES) || FP8_TYPES
#include <cuda_fp8.h>

// Never below the smallest normal number, so that its reciprocal is finite: elements that are all 0
// stay 0.
__device__ inline float ScaleOf(float amax) {
  const float scale = amax / kFp8Max;
  return scale < kSmallestScale ? kSmallestScale : scale;
}

// Two in one conversion, as the hardware has it.
__device__ inline void FromFloats(float a, float b, __nv_fp8_e4m3* to) {
  const __nv_fp8x2_storage_t two =
      __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
  *reinterpret_cast<__nv_fp8x2_storage_t*>(to) = two;
}

// The largest magnitude so far and of `pack`; NaNs do not count.
template <typename T, int N>
__device__ inline float MaxMagnitude(float amax, const Pack<T, N>& pack) {
#pragma unroll
  for (int j = 0; j < N; ++j) amax = fmaxf(amax, fabsf(static_cast<float>(pack.values[j])));
  return amax;
}

template <typename T, int N>
__device__ inline Pack<__nv_fp8_e4m3, N> Quantize(const Pack<T, N>& pack, float inverse_scale) {
  float values[N];
#pragma unroll
  for (int j = 0; j < N; ++j) values[j] = static_cast<float>(pack.values[j]) * inverse_scale;
  return ToPack<__nv_fp8_e4m3>(values);
}
#endif
