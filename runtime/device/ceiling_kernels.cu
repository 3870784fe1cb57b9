// What a device reaches when it does nothing else: copies, multiply-adds in registers, matrix units,
// an empty launch. Compiled like support_kernels.cu, for CUDA devices and for the CPU device. Which
// kernels there are for an architecture, and how much each does, stands in ceilings.cc.
//
// The loops of arithmetic keep everything in registers (wgmma: in one tile of shared memory), so
// that no operand traffic limits them, and have enough independent sums to hide latencies. Operands are
// random: zeros would draw less power and so run at higher clocks than any real kernel.

typedef unsigned long long u64;

// ---- Copies -------------------------------------------------------------------------------------

#ifdef HONE_CPU

// One thread a block; the library's copy chooses the instructions.
template <u64 BYTES>
__device__ void CopyChunk(char* to, const char* from) {
  __builtin_memcpy(to + blockIdx.x * BYTES, from + blockIdx.x * BYTES, BYTES);
}
extern "C" __global__ void hone_copy_small_chunks(char* to, const char* from) {
  CopyChunk<(64 << 10)>(to, from);
}
extern "C" __global__ void hone_copy_large_chunks(char* to, const char* from) {
  CopyChunk<(8 << 20)>(to, from);
}

#else

// One pass: a block copies UNROLL * blockDim.x vectors, each thread's in flight at once.
template <int UNROLL>
__device__ void CopyVectors(ulonglong2* to, const ulonglong2* from) {
  const u64 first = (u64)blockIdx.x * (UNROLL * blockDim.x) + threadIdx.x;
  ulonglong2 vectors[UNROLL];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) vectors[i] = from[first + i * blockDim.x];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) to[first + i * blockDim.x] = vectors[i];
}
extern "C" __global__ void hone_copy_1(ulonglong2* to, const ulonglong2* from) {
  CopyVectors<1>(to, from);
}
extern "C" __global__ void hone_copy_4(ulonglong2* to, const ulonglong2* from) {
  CopyVectors<4>(to, from);
}
extern "C" __global__ void hone_copy_8(ulonglong2* to, const ulonglong2* from) {
  CopyVectors<8>(to, from);
}

#endif

// ---- Launch -------------------------------------------------------------------------------------

extern "C" __global__ void hone_empty() {}

// ---- Multiply-adds in F32 -----------------------------------------------------------------------

#ifdef HONE_CPU

// Eight lanes a vector, as AVX has them; 12 sums hide a latency of 4 cycles at two a cycle.
extern "C" __global__ void hone_rate_f32(float* out, u64 steps) {
  typedef float Vector __attribute__((vector_size(32)));
  Vector sums[12];
  for (int i = 0; i < 12; ++i) sums[i] = Vector{} + (float)(i + (int)threadIdx.x);
  // The compiler must not know them.
  float factor = 0.9999f, addend = 1e-4f;
  asm volatile("" : "+x"(factor), "+x"(addend));
  const Vector factors = Vector{} + factor, addends = Vector{} + addend;
  for (u64 step = 0; step < steps; ++step) {
    for (int i = 0; i < 12; ++i) sums[i] = sums[i] * factors + addends;
  }
  Vector total = Vector{};
  for (int i = 0; i < 12; ++i) total += sums[i];
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += total[i];
  if (sum == 1234.5f) *out = sum;
}

#else

extern "C" __global__ void __launch_bounds__(256) hone_rate_f32(float* out, u64 steps) {
  float sums[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) sums[i] = (float)(threadIdx.x + i);
  const float factor = 0.9999f + (float)blockIdx.x * 1e-9f;
  const float addend = 1e-4f + (float)threadIdx.x * 1e-9f;
  for (u64 step = 0; step < steps; ++step) {
#pragma unroll
    for (int round = 0; round < 8; ++round) {
#pragma unroll
      for (int i = 0; i < 16; ++i) sums[i] = __fmaf_rn(sums[i], factor, addend);
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) sum += sums[i];
  if (sum == 1234.5f) *out = sum;  // never, which the compiler does not know
}

#endif

// ---- Matrix units -------------------------------------------------------------------------------

#ifdef __CUDA_ARCH__

namespace {

__device__ unsigned Mixed(unsigned x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// Bits of random operands in +-[0.5, 1), as many as fit 32 bits.
struct Tf32 {
  __device__ static unsigned Bits(unsigned random) { return (random & 0x807fe000u) | 0x3f000000u; }
};
struct F16 {
  __device__ static unsigned Bits(unsigned random) { return (random & 0x83ff83ffu) | 0x38003800u; }
};
struct BF16 {
  __device__ static unsigned Bits(unsigned random) { return (random & 0x807f807fu) | 0x3f003f00u; }
};
#if __CUDA_ARCH__ >= 890
struct F8 {
  __device__ static unsigned Bits(unsigned random) { return (random & 0x87878787u) | 0x30303030u; }
};
#endif

}  // namespace

#if __CUDA_ARCH__ >= 800

#define HONE_MMA_SYNC(NAME, SHAPE, TYPE, OPERANDS)                                                 \
  extern "C" __global__ void __launch_bounds__(256) NAME(float* out, u64 steps) {                  \
    unsigned a[2][4], b[2][2];                                                                     \
    for (int i = 0; i < 8; ++i) a[i / 4][i % 4] = OPERANDS::Bits(Mixed(threadIdx.x * 12 + i));     \
    for (int i = 0; i < 4; ++i) b[i / 2][i % 2] = OPERANDS::Bits(Mixed(threadIdx.x * 12 + 8 + i)); \
    float sums[8][4] = {};                                                                         \
    for (u64 step = 0; step < steps; ++step) {                                                     \
      _Pragma("unroll") for (int i = 0; i < 8; ++i) {                                              \
        asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." TYPE "." TYPE ".f32 "               \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                     : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])      \
                     : "r"(a[i % 2][0]), "r"(a[i % 2][1]), "r"(a[i % 2][2]), "r"(a[i % 2][3]),     \
                       "r"(b[i / 2 % 2][0]), "r"(b[i / 2 % 2][1]));                                \
      }                                                                                            \
    }                                                                                              \
    float sum = 0;                                                                                 \
    for (int i = 0; i < 32; ++i) sum += sums[i / 4][i % 4];                                        \
    if (sum == 1234.5f) *out = sum;                                                                \
  }

HONE_MMA_SYNC(hone_rate_mma_sync_tf32, "m16n8k8", "tf32", Tf32)
HONE_MMA_SYNC(hone_rate_mma_sync_f16, "m16n8k16", "f16", F16)
HONE_MMA_SYNC(hone_rate_mma_sync_bf16, "m16n8k16", "bf16", BF16)
#if __CUDA_ARCH__ >= 890
HONE_MMA_SYNC(hone_rate_mma_sync_fp8, "m16n8k32", "e4m3", F8)
#endif

#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

namespace {

// A tile whose rows are 128 bytes, in the layout of the 128-byte swizzle: groups of 8 rows lie 1,024
// bytes apart. All lengths in units of 16 bytes; the leading offset is not used with this swizzle.
__device__ u64 Descriptor(const void* tile) {
  const u64 address = __cvta_generic_to_shared(tile);
  return (address & 0x3ffff) >> 4 | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

constexpr int kRowsA = 64, kRowsB = 256, kRowBytes = 128;

}  // namespace

#define HONE_FOUR(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define HONE_SIXTEEN(i) HONE_FOUR(i), HONE_FOUR(i + 4), HONE_FOUR(i + 8), HONE_FOUR(i + 12)
#define HONE_SUMS                                                                  \
  HONE_SIXTEEN(0), HONE_SIXTEEN(16), HONE_SIXTEEN(32), HONE_SIXTEEN(48), HONE_SIXTEEN(64), \
      HONE_SIXTEEN(80), HONE_SIXTEEN(96), HONE_SIXTEEN(112)
#define HONE_SUM_NAMES \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
  "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, " \
  "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, " \
  "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, " \
  "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, " \
  "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, " \
  "%124, %125, %126, %127"

// Two warpgroups a block, each with 64 x 256 sums in registers and two groups of four steps along k
// in flight. Both read the same tiles: shared memory has to carry what a step needs, as in a real
// kernel, and no more.
#define HONE_WGMMA(NAME, SHAPE, TYPE, TRANSPOSED, OPERANDS)                                        \
  extern "C" __global__ void __launch_bounds__(256, 1) NAME(float* out, u64 steps) {               \
    __shared__ alignas(1024) unsigned tile[(kRowsA + kRowsB) * kRowBytes / 4];                     \
    for (int i = threadIdx.x; i < (kRowsA + kRowsB) * kRowBytes / 4; i += 256) {                   \
      tile[i] = OPERANDS::Bits(Mixed(i));                                                          \
    }                                                                                              \
    asm volatile("fence.proxy.async;" ::: "memory");                                               \
    __syncthreads();                                                                               \
    const u64 a = Descriptor(tile), b = Descriptor(tile + kRowsA * kRowBytes / 4);                 \
    float sums[128];                                                                               \
    _Pragma("unroll") for (int i = 0; i < 128; ++i) sums[i] = 0;                                   \
    for (u64 step = 0; step < steps; ++step) {                                                     \
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                                      \
      _Pragma("unroll") for (int i = 0; i < 4; ++i) {                                              \
        asm volatile("wgmma.mma_async.sync.aligned." SHAPE ".f32." TYPE "." TYPE                   \
                     " {" HONE_SUM_NAMES "}, %128, %129, 1, 1, 1" TRANSPOSED ";"                   \
                     : HONE_SUMS                                                                   \
                     : "l"(a + i % 4 * 2), "l"(b + i % 4 * 2));                                    \
      }                                                                                            \
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");                               \
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");                               \
    }                                                                                              \
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");                                 \
    float sum = 0;                                                                                 \
    _Pragma("unroll") for (int i = 0; i < 128; ++i) sum += sums[i];                                \
    if (sum == 1234.5f) *out = sum;                                                                \
  }

HONE_WGMMA(hone_rate_wgmma_tf32, "m64n256k8", "tf32", "", Tf32)
HONE_WGMMA(hone_rate_wgmma_f16, "m64n256k16", "f16", ", 0, 0", F16)
HONE_WGMMA(hone_rate_wgmma_bf16, "m64n256k16", "bf16", ", 0, 0", BF16)
HONE_WGMMA(hone_rate_wgmma_fp8, "m64n256k32", "e4m3", "", F8)

#endif

#endif
