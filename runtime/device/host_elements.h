// The formulas of element_math.h over host memory: for the CPU device, fakes and tests.
#pragma once

#include <cstdint>

#include "runtime/device/device.h"
#include "runtime/device/element_math.h"

namespace hone {

// Addresses need the element's own alignment at most in value, not in placement: all accesses are
// byte-wise copies. REQUIRES: spec.kind is not kGenerator.
void FillElements(void* to, int64_t elements, const FillSpec& spec);
CompareResult CompareElements(const void* values, const void* reference, int64_t elements,
                              DataType dtype, const Tolerance& tolerance);
int64_t FindByteNotInMemory(const void* memory, int value, int64_t bytes);
// Adds to `sum` the shares of `bytes` bytes that start at word `first_word` of the buffer. All
// pieces but the last are multiples of 8 bytes; the last one's tail is padded with zeros.
uint64_t AddChecksum(uint64_t sum, const void* memory, int64_t bytes, uint64_t first_word);

// What the kernels of support_kernels.cu take.
element::FillParameters ToParameters(const FillSpec& spec, int64_t elements);
element::CompareParameters ToParameters(DataType dtype, const Tolerance& tolerance);

}  // namespace hone
