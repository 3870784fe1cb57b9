// Numbers to and from the bits of every element type, on the host and without CUDA's headers.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "runtime/launch/data_type.h"

namespace hone {

// The bits of `value` as `type`, in the low SizeBytes(type) bytes. Floating-point types round to
// nearest, ties to even; beyond their range F16, BF16, F32 give infinity, and the 8-bit types
// saturate at their largest finite value, as CUDA's conversions do. For integers and BOOL the value
// must be integral and in range: otherwise OUT_OF_RANGE with the value and the type.
absl::StatusOr<uint64_t> EncodeScalar(DataType type, double value);
// As above for an integer, exact for 64-bit types. U64 takes non-negative values only.
absl::StatusOr<uint64_t> EncodeInteger(DataType type, int64_t value);

// As these, nullopt in place of the error: for launches, which must not pay for words.
std::optional<uint64_t> TryEncodeScalar(DataType type, double value);
std::optional<uint64_t> TryEncodeInteger(DataType type, int64_t value);

// The value of an element. 64-bit integers lose bits beyond 2^53.
double DecodeScalar(DataType type, uint64_t bits);

}  // namespace hone
