// The toolkit's <cuda_bf16.h>, completed for hosts.
#pragma once
#pragma GCC system_header

#include_next <cuda_bf16.h>
#include <cuda_fp16.h>

HONE_CPU_HALF_MATH(__nv_bfloat16, __nv_bfloat162, __float2bfloat16)
HONE_CPU_HALF_FMA(__nv_bfloat16, __nv_bfloat162, __float2bfloat16)
HONE_CPU_HALF_TO_INTEGERS(__nv_bfloat16, bfloat16)
HONE_CPU_HALF_ATOMICS(__nv_bfloat16, __nv_bfloat162)
