#include "runtime/launch/scalar_encoding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

// A small IEEE-like format: sign, exponent, mantissa.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint64_t overflow;  // what too large values become, without sign
  uint64_t nan;
  uint64_t largest;  // largest finite, without sign
  bool has_infinity;
};

constexpr FloatFormat kHalf{5, 10, 15, 0x7C00, 0x7FFF, 0x7BFF, true};
constexpr FloatFormat kBFloat{8, 7, 127, 0x7F80, 0x7FFF, 0x7F7F, true};
// No infinity: all ones is the only NaN, and the last binade is finite but for it.
constexpr FloatFormat kE4M3{4, 3, 7, 0x7E, 0x7F, 0x7E, false};
// Saturates although it has an infinity, as CUDA's conversions do.
constexpr FloatFormat kE5M2{5, 2, 15, 0x7B, 0x7F, 0x7B, true};

// Rounds to nearest, ties to even, once: through float it would round twice.
uint64_t EncodeFloat(const FloatFormat& format, double value) {
  const uint64_t sign = static_cast<uint64_t>(std::signbit(value))
                        << (format.exponent_bits + format.mantissa_bits);
  if (std::isnan(value)) return sign | format.nan;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | format.overflow;
  // magnitude = fraction * 2^exponent with fraction in [1, 2).
  const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias);
  // In units of the last place; nearbyint uses the current mode, to nearest even by default.
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // A mantissa that overflows carries into the exponent by plain addition; below the least normal
  // number the hidden bit is not set and the exponent field stays 0.
  const uint64_t base = static_cast<uint64_t>(exponent + format.bias - 1) << format.mantissa_bits;
  const uint64_t bits = base + static_cast<uint64_t>(units);
  return sign | (bits > format.largest ? format.overflow : bits);
}

double DecodeFloat(const FloatFormat& format, uint64_t bits) {
  const uint64_t mantissa_mask = (uint64_t{1} << format.mantissa_bits) - 1;
  const uint64_t exponent_mask = (uint64_t{1} << format.exponent_bits) - 1;
  const uint64_t mantissa = bits & mantissa_mask;
  const auto exponent = static_cast<int>((bits >> format.mantissa_bits) & exponent_mask);
  const bool negative = (bits >> (format.mantissa_bits + format.exponent_bits) & 1) != 0;
  double value = 0;
  if (exponent == static_cast<int>(exponent_mask) &&
      (format.has_infinity || mantissa == mantissa_mask)) {
    value = format.has_infinity && mantissa == 0 ? std::numeric_limits<double>::infinity()
                                                 : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<double>(mantissa), 1 - format.bias - format.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<double>(mantissa + mantissa_mask + 1),
                       exponent - format.bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

const FloatFormat* SmallFormat(DataType type) {
  switch (type) {
    case DataType::kF16:
      return &kHalf;
    case DataType::kBF16:
      return &kBFloat;
    case DataType::kF8E4M3:
      return &kE4M3;
    case DataType::kF8E5M2:
      return &kE5M2;
    default:
      return nullptr;
  }
}

bool IsSigned(DataType type) {
  return type == DataType::kI8 || type == DataType::kI16 || type == DataType::kI32 ||
         type == DataType::kI64;
}

// The value's bits of an integer type; 1 for BOOL.
int ValueBits(DataType type) { return type == DataType::kBool ? 1 : 8 * SizeBytes(type); }

template <typename T>
absl::Status DoesNotFit(DataType type, T value) {
  return absl::OutOfRangeError(absl::StrCat(value, " is not a value of ", Name(type)));
}

uint64_t LowBytes(uint64_t bits, int bytes) {
  return bytes == 8 ? bits : bits & ((uint64_t{1} << (8 * bytes)) - 1);
}

}  // namespace

std::optional<uint64_t> TryEncodeScalar(DataType type, double value) {
  if (const FloatFormat* format = SmallFormat(type)) return EncodeFloat(*format, value);
  if (type == DataType::kF32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (type == DataType::kF64) return std::bit_cast<uint64_t>(value);
  if (!(std::trunc(value) == value)) return std::nullopt;  // a NaN too
  if (type == DataType::kU64) {
    if (value < 0 || value >= 0x1p64) return std::nullopt;
    return static_cast<uint64_t>(value);
  }
  if (value < -0x1p63 || value >= 0x1p63) return std::nullopt;
  return TryEncodeInteger(type, static_cast<int64_t>(value));
}

std::optional<uint64_t> TryEncodeInteger(DataType type, int64_t value) {
  if (IsFloatingPoint(type)) return TryEncodeScalar(type, static_cast<double>(value));
  const int bits = ValueBits(type);
  if (IsSigned(type)) {
    const int64_t limit =
        bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (bits - 1)) - 1;
    if (value > limit || value < -limit - 1) return std::nullopt;
  } else {
    const bool above = bits < 63 && value > (int64_t{1} << bits) - 1;
    if (value < 0 || above) return std::nullopt;
  }
  return LowBytes(static_cast<uint64_t>(value), SizeBytes(type));
}

absl::StatusOr<uint64_t> EncodeScalar(DataType type, double value) {
  const std::optional<uint64_t> bits = TryEncodeScalar(type, value);
  if (bits) return *bits;
  const bool integral = std::trunc(value) == value && value >= -0x1p63 && value < 0x1p63;
  // An integer reads better with all its digits.
  return integral ? DoesNotFit(type, static_cast<int64_t>(value)) : DoesNotFit(type, value);
}

absl::StatusOr<uint64_t> EncodeInteger(DataType type, int64_t value) {
  const std::optional<uint64_t> bits = TryEncodeInteger(type, value);
  if (!bits) return DoesNotFit(type, value);
  return *bits;
}

double DecodeScalar(DataType type, uint64_t bits) {
  if (const FloatFormat* format = SmallFormat(type)) return DecodeFloat(*format, bits);
  switch (type) {
    case DataType::kF32:
      return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case DataType::kF64:
      return std::bit_cast<double>(bits);
    case DataType::kI8:
      return static_cast<int8_t>(bits);
    case DataType::kI16:
      return static_cast<int16_t>(bits);
    case DataType::kI32:
      return static_cast<int32_t>(bits);
    case DataType::kI64:
      return static_cast<double>(static_cast<int64_t>(bits));
    default:
      return static_cast<double>(LowBytes(bits, SizeBytes(type)));
  }
}

}  // namespace hone
