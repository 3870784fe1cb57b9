// CUDA C++ beyond threads: atomics, math, 16-bit floats, hints, device variables, names.
#include <cmath>
#include <numeric>

#include "tests/cpu/cpu_kernel.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::Each;
using testing::HasSubstr;

TEST(LanguageTest, AtomicsOfAllBlocksAddUp) {
  CpuKernel kernel(R"(
    __global__ void count(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
      const int t = blockIdx.x * blockDim.x + threadIdx.x;
      atomicAdd(i, 1);
      atomicMax(i + 1, t);
      atomicMin(i + 2, -t);
      atomicAdd(u, 2u);
      atomicInc(u + 1, 9);
      atomicOr(u + 2, 1u << t % 32);
      atomicAdd(l, 3ull);
      atomicAdd(f, 1.0f);
      atomicAdd(d, 0.5);
      for (int old = i[3], seen; (seen = atomicCAS(i + 3, old, old + 2)) != old; old = seen) {}
      if (atomicExch(u + 3, 1u) == 0) atomicSub(i + 4, 5);
    })",
                   "count");
  std::vector<int> i(5);
  std::vector<uint32_t> u(4);
  std::vector<uint64_t> l(1);
  std::vector<float> f(1);
  std::vector<double> d(1);
  ASSERT_THAT(kernel.Grid(100).Block(128).Launch(i, u, l, f, d), IsOk());
  EXPECT_THAT(i, testing::ElementsAre(12'800, 12'799, -12'799, 25'600, -5));
  EXPECT_THAT(u, testing::ElementsAre(25'600, 12'800 % 10, 0xffffffffu, 1));
  EXPECT_EQ(l[0], 38'400u);
  EXPECT_EQ(f[0], 12'800.0f);
  EXPECT_EQ(d[0], 6'400.0);
}

TEST(LanguageTest, FloatAndIntegerIntrinsics) {
  CpuKernel kernel(R"(
    __global__ void math(float* f, unsigned* u, int* i) {
      f[0] = __expf(1.0f); f[1] = __logf(f[0]); f[2] = rsqrtf(4.0f); f[3] = __frcp_rn(8.0f);
      f[4] = __fdividef(3.0f, 4.0f); f[5] = fmaf(2.0f, 3.0f, 4.0f); f[6] = __saturatef(7.0f);
      f[7] = min(2, 3.5f) + max(1u, 2u); f[8] = __int_as_float(0x40490fdb); f[9] = __powf(2.0f, 10.0f);
      f[10] = fmaxf(nanf(""), 1.0f); f[11] = __ldg(f + 4); f[12] = exp2f(3.0f); f[13] = normcdff(0.0f);
      u[0] = __popc(0xff0f); u[1] = __clz(1); u[2] = __ffs(8); u[3] = __brev(1);
      u[4] = __byte_perm(0x33221100, 0x77665544, 0x7531); u[5] = __umulhi(1u << 31, 6);
      u[6] = __float_as_uint(1.0f); u[7] = __funnelshift_l(0x80000000u, 1, 1);
      i[0] = __float2int_rn(2.5f); i[1] = __float2int_rz(-2.7f); i[2] = __float2int_ru(2.1f);
      i[3] = __float2int_rn(1e20f); i[4] = __float2int_rz(nanf("")); i[5] = __dp4a(0x01020304, 0x01010101, 5);
      i[6] = __mulhi(-1, 5);
    })",
                   "math");
  std::vector<float> f(14);
  std::vector<uint32_t> u(8);
  std::vector<int> i(7);
  ASSERT_THAT(kernel.Launch(f, u, i), IsOk());
  EXPECT_FLOAT_EQ(f[0], 2.7182817f);
  EXPECT_FLOAT_EQ(f[1], 1.0f);
  EXPECT_THAT(std::vector<float>(f.begin() + 2, f.begin() + 8),
              testing::ElementsAre(0.5f, 0.125f, 0.75f, 10.0f, 1.0f, 4.0f));
  EXPECT_FLOAT_EQ(f[8], 3.1415927f);
  EXPECT_THAT(std::vector<float>(f.begin() + 9, f.end()),
              testing::ElementsAre(1024.0f, 1.0f, 0.75f, 8.0f, 0.5f));
  EXPECT_THAT(u, testing::ElementsAre(12, 31, 4, 0x80000000u, 0x77553311u, 3, 0x3f800000u, 3));
  EXPECT_THAT(i, testing::ElementsAre(2, -2, 3, 0x7fffffff, 0, 15, -1));
}

TEST(LanguageTest, HalfAndBfloat16HaveTheDevicesFunctions) {
  CpuKernel kernel(R"(
    #include <cuda_bf16.h>
    #include <cuda_fp16.h>
    template <typename T> __device__ void all(float* out, T* scratch) {
      const T one = 1.0f, three = 3.0f;
      out[0] = float(hexp(one)); out[1] = float(hrsqrt(T(4.0f))); out[2] = float(__hfma(three, three, one));
      out[3] = float(htanh(T(0.0f))) + float(hlog2(T(8.0f))); out[4] = float(three / T(2.0f) - one);
      *scratch = one;
      atomicAdd(scratch, three);
      out[5] = float(*scratch);
      out[6] = float(__shfl_xor_sync(0xffffffff, T(float(threadIdx.x)), 1));
      out[7] = float(__hmax(one, three)) + float(__habs(T(-2.0f)));
    }
    __global__ void halves(float* out) {
      __shared__ __half h[2]; __shared__ __nv_bfloat16 b[2];
      float* mine = out + threadIdx.x * 18;
      all(mine, h + threadIdx.x);
      all(mine + 8, b + threadIdx.x);
      const __half2 two = __hfma2(__floats2half2_rn(1.0f, 2.0f), __float2half2_rn(3.0f), __float2half2_rn(0.5f));
      mine[16] = __low2float(two); mine[17] = __high2float(h2sqrt(__float2half2_rn(9.0f)));
    })",
                   "halves");
  std::vector<float> out(36);
  ASSERT_THAT(kernel.Block(2).Launch(out), IsOk());
  for (const int at : {0, 8}) {
    EXPECT_NEAR(out[at], 2.718f, 0.01f);
    EXPECT_THAT(std::vector<float>(&out[at + 1], &out[at + 8]),
                testing::ElementsAre(0.5f, 10.0f, 3.0f, 0.5f, 4.0f, 1.0f, 5.0f));
  }
  EXPECT_EQ(out[16], 3.5f);
  EXPECT_EQ(out[17], 3.0f);
}

TEST(LanguageTest, Fp8ConvertsBothWays) {
  CpuKernel kernel(R"(
    #include <cuda_fp8.h>
    __global__ void quantise(unsigned char* q, float* back, const float* x) {
      const __nv_fp8_e4m3 v(x[threadIdx.x]);
      q[threadIdx.x] = v.__x;
      back[threadIdx.x] = float(v);
    })",
                   "quantise");
  std::vector<float> x = {1.0f, 1.3f, 1000.0f, -0.25f};
  std::vector<float> back(4);
  std::vector<uint8_t> q(4);
  ASSERT_THAT(kernel.Block(4).Launch(q, back, x), IsOk());
  EXPECT_THAT(back, testing::ElementsAre(1.0f, 1.25f, 448.0f, -0.25f));
  EXPECT_EQ(q[0], 0x38);
}

TEST(LanguageTest, VectorTypesAndCacheHints) {
  CpuKernel kernel(R"(
    struct __align__(16) Pack { __half* unused; float x, y; };
    __global__ void vectors(float4* out, const float4* in) {
      const float4 v = __ldcs(in + threadIdx.x);
      __stcs(out + threadIdx.x, make_float4(v.w, v.z, v.y, v.x));
      __stcg(&out[threadIdx.x].x, 5);
    })",
                   "vectors");
  // Pack names a type that is only known with <cuda_fp16.h>, which was not included.
  EXPECT_THAT(kernel.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("__half")));
  CpuKernel fixed(R"(
    __global__ void vectors(float4* out, const float4* in) {
      const float4 v = __ldcs(in + threadIdx.x);
      __stcs(out + threadIdx.x, make_float4(v.w, v.z, v.y, v.x));
      __stcg(&out[threadIdx.x].x, 5);
    })",
                  "vectors");
  std::vector<float> in = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> out(8);
  ASSERT_THAT(fixed.Block(2).Launch(out, in), IsOk());
  EXPECT_THAT(out, testing::ElementsAre(5, 3, 2, 1, 5, 7, 6, 5));
}

TEST(LanguageTest, PointersMayAliasAcrossTypes) {
  CpuKernel kernel(R"(
    template <int N> struct alignas(4 * N) Words { unsigned w[N]; };
    __global__ void swap(float* data) {
      auto* wide = reinterpret_cast<Words<4>*>(data);
      data[threadIdx.x * 4] = 1.0f;
      const Words<4> old = wide[threadIdx.x];
      wide[threadIdx.x] = Words<4>{{old.w[3], old.w[2], old.w[1], old.w[0]}};
      data[threadIdx.x * 4 + 3] += 1.0f;
    })",
                   "swap");
  std::vector<float> data(400, 3.0f);
  ASSERT_THAT(kernel.Block(100).Launch(data), IsOk());
  for (int i = 0; i < 100; ++i) ASSERT_EQ(data[i * 4 + 3], 2.0f);
}

TEST(LanguageTest, DeviceVariablesAreOneForAllBlocksAndLaunches) {
  CpuKernel kernel(R"(
    __device__ unsigned blocks_done;
    __constant__ int scale[2] = {3, 4};
    __global__ void last(int* out) {
      __shared__ bool is_last;
      if (threadIdx.x == 0) is_last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
      __syncthreads();
      if (is_last && threadIdx.x == 0) out[0] += scale[1];
    })",
                   "last");
  std::vector<int> out(1);
  kernel.Grid(500).Block(64);
  ASSERT_THAT(kernel.Launch(out), IsOk());
  ASSERT_THAT(kernel.Launch(out), IsOk());
  EXPECT_EQ(out[0], 8);
  EXPECT_TRUE(kernel.module().has_device_variables());
}

TEST(LanguageTest, SharedMemoryAndTemplateStaticsAreNotDeviceVariables) {
  CpuKernel kernel(R"(
    template <typename T> __device__ T total(T v) {
      __shared__ T sum;
      if (threadIdx.x == 0) sum = 0;
      __syncthreads();
      atomicAdd(&sum, v);
      __syncthreads();
      return sum;
    }
    static __device__ const int table[4] = {1, 2, 3, 4};
    __global__ void f(int* out) {
      out[blockIdx.x * blockDim.x + threadIdx.x] = total(table[threadIdx.x % 4]);
    })",
                   "f");
  std::vector<int> out(64 * 64);
  ASSERT_THAT(kernel.Grid(64).Block(64).Launch(out), IsOk());
  EXPECT_THAT(out, Each(160));
  EXPECT_FALSE(kernel.module().has_device_variables());
  EXPECT_EQ(kernel.module().static_shared_bytes(), 4);
}

TEST(LanguageTest, StructsAndGridConstantsArePassedByValue) {
  CpuKernel kernel(R"(
    struct Params { long long n; float* out; char tag; };
    __global__ void fill(const __grid_constant__ Params p, bool on, short s) {
      const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
      if (on && i < p.n) p.out[i] = p.tag + s;
    })",
                   "fill");
  struct Params {
    long long n;
    float* out;
    char tag;
  };
  std::vector<float> out(100);
  ASSERT_THAT(kernel.Grid(2).Block(64).Launch(Params{99, out.data(), 'a'}, true, short{3}), IsOk());
  EXPECT_EQ(out[98], 'a' + 3);
  EXPECT_EQ(out[99], 0);
}

}  // namespace
}  // namespace hone
