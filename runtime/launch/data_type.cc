#include "runtime/launch/data_type.h"

#include <array>

#include "absl/strings/match.h"

namespace hone {
namespace {

struct Facts {
  DataType type;
  absl::string_view name;
  absl::string_view cuda_name;
  int size_bytes;
  bool floating_point;
};

// In the order of their numbers, from 1.
constexpr std::array<Facts, 15> kFacts{{
    {DataType::kF16, "F16", "__half", 2, true},
    {DataType::kBF16, "BF16", "__nv_bfloat16", 2, true},
    {DataType::kF32, "F32", "float", 4, true},
    {DataType::kF64, "F64", "double", 8, true},
    {DataType::kF8E4M3, "F8E4M3", "__nv_fp8_e4m3", 1, true},
    {DataType::kF8E5M2, "F8E5M2", "__nv_fp8_e5m2", 1, true},
    {DataType::kI8, "I8", "signed char", 1, false},
    {DataType::kU8, "U8", "unsigned char", 1, false},
    {DataType::kI16, "I16", "short", 2, false},
    {DataType::kU16, "U16", "unsigned short", 2, false},
    {DataType::kI32, "I32", "int", 4, false},
    {DataType::kU32, "U32", "unsigned int", 4, false},
    {DataType::kI64, "I64", "long long", 8, false},
    {DataType::kU64, "U64", "unsigned long long", 8, false},
    {DataType::kBool, "BOOL", "bool", 1, false},
}};

const Facts& FactsOf(DataType type) { return kFacts[static_cast<size_t>(type) - 1]; }

}  // namespace

int SizeBytes(DataType type) { return FactsOf(type).size_bytes; }
bool IsFloatingPoint(DataType type) { return FactsOf(type).floating_point; }
absl::string_view Name(DataType type) { return FactsOf(type).name; }
absl::string_view CudaName(DataType type) { return FactsOf(type).cuda_name; }

std::optional<DataType> ParseDataType(absl::string_view name) {
  for (const Facts& facts : kFacts) {
    if (absl::EqualsIgnoreCase(facts.name, name)) return facts.type;
  }
  return std::nullopt;
}

}  // namespace hone
