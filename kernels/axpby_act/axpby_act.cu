// y[i] = f(a * x[i] + b * y[i]) for i in [0, n), computed in float.
#include "pack.cuh"

// Activations. Each gives the function in float for the kernel and in double for the reference.
struct identity {
  __device__ static float Apply(float v) { return v; }
  __device__ static double ApplyExactly(double v) { return v; }
};
struct relu {
  // A NaN stays a NaN, as frameworks have it.
  __device__ static float Apply(float v) { return v < 0.0f ? 0.0f : v; }
  __device__ static double ApplyExactly(double v) { return v < 0.0 ? 0.0 : v; }
};
struct sigmoid {
  __device__ static float Apply(float v) { return 1.0f / (1.0f + expf(-v)); }
  __device__ static double ApplyExactly(double v) { return 1.0 / (1.0 + exp(-v)); }
};
struct silu {
  __device__ static float Apply(float v) { return v / (1.0f + expf(-v)); }
  __device__ static double ApplyExactly(double v) { return v / (1.0 + exp(-v)); }
};
struct gelu {
  __device__ static float Apply(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678f)); }
  __device__ static double ApplyExactly(double v) {
    return 0.5 * v * (1.0 + erf(v * 0.70710678118654752));
  }
};
struct gelu_tanh {
  __device__ static float Apply(float v) {
    return 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
  }
  __device__ static double ApplyExactly(double v) {
    return 0.5 * v * (1.0 + tanh(0.79788456080286536 * (v + 0.044715 * v * v * v)));
  }
};

template <typename T, typename ACT, int XBLOCK, int VEC, int ITEMS>
__global__ void __launch_bounds__(XBLOCK)
    axpby_act(T* y, const T* x, float a, float b, long long n) {
  using Access = Pack<T, VEC>;
  constexpr long long kTile = static_cast<long long>(XBLOCK) * VEC * ITEMS;
  const long long tile_begin = blockIdx.x * kTile;
  const long long begin = tile_begin + static_cast<long long>(threadIdx.x) * VEC;

  if (tile_begin + kTile <= n) {
    Access xs[ITEMS];
    Access ys[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      xs[i] = LoadPack<VEC>(x + begin + i * XBLOCK * VEC);
      ys[i] = LoadPack<VEC>(y + begin + i * XBLOCK * VEC);
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      float values[VEC];
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        values[j] = ACT::Apply(a * static_cast<float>(xs[i].values[j]) +
                               b * static_cast<float>(ys[i].values[j]));
      }
      StorePack(y + begin + i * XBLOCK * VEC, ToPack<T>(values));
    }
    return;
  }

  // The last tile, element by element.
  for (int i = 0; i < ITEMS; ++i) {
    const long long at = begin + static_cast<long long>(i) * XBLOCK * VEC;
    for (long long j = at; j < at + VEC && j < n; ++j) {
      const float v = a * static_cast<float>(x[j]) + b * static_cast<float>(y[j]);
      y[j] = static_cast<T>(ACT::Apply(v));
    }
  }
}

template <typename T, typename ACT>
__global__ void axpby_act_reference(T* y, const T* x, float a, float b, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double v = static_cast<double>(a) * static_cast<float>(x[i]) +
                   static_cast<double>(b) * static_cast<float>(y[i]);
  y[i] = static_cast<T>(static_cast<float>(ACT::ApplyExactly(v)));
}
