// Element types, as the templates name them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace hone {

// Values equal hone.v1.DataType's and are stored; never renumber.
enum class DataType : int {
  kF16 = 1,
  kBF16 = 2,
  kF32 = 3,
  kF64 = 4,
  kF8E4M3 = 5,
  kF8E5M2 = 6,
  kI8 = 7,
  kU8 = 8,
  kI16 = 9,
  kU16 = 10,
  kI32 = 11,
  kU32 = 12,
  kI64 = 13,
  kU64 = 14,
  kBool = 15,
};

int SizeBytes(DataType type);
bool IsFloatingPoint(DataType type);
// "F32", as in textprotos.
absl::string_view Name(DataType type);
// "float", "__nv_bfloat16", ...
absl::string_view CudaName(DataType type);
// Accepts the name in any case; nullopt for anything else.
std::optional<DataType> ParseDataType(absl::string_view name);

}  // namespace hone
