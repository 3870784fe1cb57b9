// The toolkit's <cuda_fp16.h>, completed for hosts.
#pragma once
#pragma GCC system_header

#include_next <cuda_fp16.h>

#include "hone_cpu_half.h"

HONE_CPU_HALF_MATH(__half, __half2, __float2half)
HONE_CPU_HALF_FMA(__half, __half2, __float2half)
HONE_CPU_HALF_TO_INTEGERS(__half, half)
HONE_CPU_HALF_ATOMICS(__half, __half2)
