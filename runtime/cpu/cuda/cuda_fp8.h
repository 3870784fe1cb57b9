// The toolkit's <cuda_fp8.h> over the completed 16-bit headers.
#pragma once
#pragma GCC system_header

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include_next <cuda_fp8.h>
