// CUDA's programming model on a CPU, for programs compiled by HostCompiler for the architecture
// "cpu".
//
// HONE_CPU is defined. __CUDA_ARCH__ and __CUDACC__ are not: guard inline PTX, tensor cores and TMA
// by
// `#ifdef HONE_CPU`. Supported:
//   - execution space and memory qualifiers, __launch_bounds__, __grid_constant__, __restrict__;
//     static __shared__ of any type and one `extern __shared__ T name[]` per kernel
//   - threadIdx blockIdx blockDim gridDim warpSize, clock64, __trap, assert, printf
//   - __syncthreads and its _count _and _or, __syncwarp, __shfl_*_sync (1 to 8 bytes),
//   __ballot_sync,
//     __any_sync, __all_sync, __match_*_sync, __reduce_*_sync, __activemask
//   - atomics on int, unsigned, unsigned long long, long long, float, double, half2, __half,
//     __nv_bfloat16, with _block and _system forms; __threadfence and its forms
//   - vector types and make_*; __ldg __ldca __ldcg __ldcs __ldlu __ldcv __stcg __stcs __stwb __stwt
//   - float and integer intrinsics; <cuda_fp16.h>, <cuda_bf16.h>, <cuda_fp8.h> with the functions
//   that
//     they lack on hosts
// Not supported: inline PTX, cooperative groups, clusters, textures, dynamic parallelism, waiting
// in one block for another.
#pragma once

#define HONE_CPU 1

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <type_traits>
#include <utility>

// A block's shared memory is the statics of the module copy that its hardware thread uses.
#define __shared__ static
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __noinline__ __attribute__((noinline))

#include <vector_functions.h>
#include <vector_types.h>

#undef __align__
#undef __cluster_dims__
#undef __forceinline__
#undef __launch_bounds__
#undef __maxnreg__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __maxnreg__(...)

#include "cpu_abi.h"

extern "C" int printf(const char* format, ...);

namespace hone_cpu {

// Objects of this namespace belong to the machinery; every other writable object at namespace scope
// is a __device__ variable.
static uint3 threadIdx;
static uint3 blockIdx;
static dim3 blockDim;
static dim3 gridDim;
static uint32_t row_end;
static char* dynamic_shared;
static uint32_t dynamic_shared_bytes;
static HoneCpuRuntime runtime;

}  // namespace hone_cpu

using hone_cpu::blockDim;
using hone_cpu::blockIdx;
using hone_cpu::gridDim;
using hone_cpu::threadIdx;

static constexpr int warpSize = 32;

#define HONE_CPU_SITE_PARAMETERS \
  const char *hone_file = __builtin_FILE(), uint32_t hone_line = __builtin_LINE()
#define HONE_CPU_SITE \
  HoneCpuSite { hone_file, hone_line }

#include "hone_cpu_atomics.h"
#include "hone_cpu_block.h"
#include "hone_cpu_entry.h"
#include "hone_cpu_math.h"
#include "hone_cpu_memory.h"
