// One formula for every generated element and one rule for every compared pair, in code that the
// host compiler and NVRTC both take, so that a GPU, the CPU device and the fakes work on the same
// bits.
//
// Only integer arithmetic, conversions and single IEEE operations are used: nothing a compiler may
// contract into a fused multiply-add, nothing whose rounding differs between libraries. Types are
// spelled without <cstdint>, which NVRTC does not have.
#pragma once

#ifdef __CUDACC__
#define HONE_ELEMENT __device__ inline
#else
#define HONE_ELEMENT inline
#endif

namespace hone {
namespace element {

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;

// Values equal hone::DataType's and hone::InitKind's; host_elements.cc asserts it.
enum Type {
  kTypeF16 = 1,
  kTypeBF16 = 2,
  kTypeF32 = 3,
  kTypeF64 = 4,
  kTypeF8E4M3 = 5,
  kTypeF8E5M2 = 6,
  kTypeI8 = 7,
  kTypeU8 = 8,
  kTypeI16 = 9,
  kTypeU16 = 10,
  kTypeI32 = 11,
  kTypeU32 = 12,
  kTypeI64 = 13,
  kTypeU64 = 14,
  kTypeBool = 15
};
enum Init {
  kInitNormal = 0,
  kInitUniform = 1,
  kInitUniformInt = 2,
  kInitIota = 3,
  kInitIndex = 4,
  kInitPermutation = 5,
  kInitOffsets = 6,
  kInitZeros = 7
};

// How a buffer of `count` elements is filled. Passed to the fill kernel by value.
struct FillParameters {
  int init;
  int type;
  i64 low;
  i64 high;
  double skew;
  u64 seed;
  u64 count;
};

// A tolerance as the compare kernel takes it.
struct CompareParameters {
  int type;
  int exact;
  int nan_forbidden;
  double atol;
  double rtol;
};

// ---- Bits ---------------------------------------------------------------------------------------

#ifdef __CUDACC__
HONE_ELEMENT u32 FloatBits(float x) { return __float_as_uint(x); }
HONE_ELEMENT float BitsFloat(u32 x) { return __uint_as_float(x); }
HONE_ELEMENT u64 DoubleBits(double x) { return (u64)__double_as_longlong(x); }
HONE_ELEMENT double BitsDouble(u64 x) { return __longlong_as_double((i64)x); }
HONE_ELEMENT double Multiply(double a, double b) { return __dmul_rn(a, b); }
HONE_ELEMENT double Add(double a, double b) { return __dadd_rn(a, b); }
#else
HONE_ELEMENT u32 FloatBits(float x) { return __builtin_bit_cast(u32, x); }
HONE_ELEMENT float BitsFloat(u32 x) { return __builtin_bit_cast(float, x); }
HONE_ELEMENT u64 DoubleBits(double x) { return __builtin_bit_cast(u64, x); }
HONE_ELEMENT double BitsDouble(u64 x) { return __builtin_bit_cast(double, x); }
HONE_ELEMENT double Multiply(double a, double b) { return a * b; }
HONE_ELEMENT double Add(double a, double b) { return a + b; }
#endif

HONE_ELEMENT int ElementBytes(int type) {
  switch (type) {
    case kTypeF64:
    case kTypeI64:
    case kTypeU64:
      return 8;
    case kTypeF32:
    case kTypeI32:
    case kTypeU32:
      return 4;
    case kTypeF16:
    case kTypeBF16:
    case kTypeI16:
    case kTypeU16:
      return 2;
    default:
      return 1;
  }
}

HONE_ELEMENT bool IsFloating(int type) { return type <= kTypeF8E5M2; }

// ---- Small floating-point formats ---------------------------------------------------------------

// Rounds a float to nearest, ties to even, in a format of `mantissa` bits and bias `bias`. Sign
// excluded on both sides; finite input only; carries run into the exponent. bf16 is not for this:
// its subnormals are float's.
HONE_ELEMENT u32 RoundMagnitude(u32 magnitude, int mantissa, int bias) {
  const int exponent = (int)(magnitude >> 23) - 127 + bias;
  u32 significand = magnitude & 0x7fffffu;
  int shift = 23 - mantissa;
  if (exponent >= 1) {
    significand |= (u32)exponent << 23;
  } else {
    shift += 1 - exponent;
    if (shift > 25) return 0;
    significand |= 1u << 23;
  }
  const u32 odd = (significand >> shift) & 1u;
  return (significand + ((1u << (shift - 1)) - 1u) + odd) >> shift;
}

// Bits of `x` in a floating-point `type`. Out of range: infinity for f16, the largest value for
// fp8.
HONE_ELEMENT u64 EncodeFloat(int type, float x) {
  const u32 bits = FloatBits(x);
  const u32 sign = bits >> 31;
  const u32 magnitude = bits & 0x7fffffffu;
  const bool is_nan = magnitude > 0x7f800000u;
  const bool is_infinite = magnitude == 0x7f800000u;
  switch (type) {
    case kTypeF32:
      return bits;
    case kTypeF64:
      return DoubleBits((double)x);
    case kTypeBF16: {
      if (is_nan) return sign << 15 | 0x7fffu;
      return sign << 15 | (magnitude + 0x7fffu + (magnitude >> 16 & 1u)) >> 16;
    }
    case kTypeF16: {
      if (is_nan) return sign << 15 | 0x7fffu;
      const u32 rounded = is_infinite ? 0x7c00u : RoundMagnitude(magnitude, 10, 15);
      return sign << 15 | (rounded > 0x7c00u ? 0x7c00u : rounded);
    }
    case kTypeF8E5M2: {
      if (is_nan) return sign << 7 | 0x7fu;
      const u32 rounded = is_infinite ? 0x7bu : RoundMagnitude(magnitude, 2, 15);
      return sign << 7 | (rounded > 0x7bu ? 0x7bu : rounded);
    }
    default: {  // kTypeF8E4M3: no infinities, 0x7f is its only NaN
      if (is_nan) return sign << 7 | 0x7fu;
      const u32 rounded = is_infinite ? 0x7eu : RoundMagnitude(magnitude, 3, 7);
      return sign << 7 | (rounded > 0x7eu ? 0x7eu : rounded);
    }
  }
}

// The value of a small format: exact in double. 2^(exponent - bias) is built from bits.
HONE_ELEMENT double DecodeMagnitude(u32 magnitude, int mantissa, int bias) {
  const u32 exponent = magnitude >> mantissa;
  const u32 fraction = magnitude & ((1u << mantissa) - 1u);
  const int power = (exponent == 0 ? 1 : (int)exponent) - bias - mantissa;
  const double scale = BitsDouble((u64)(1023 + power) << 52);
  return (double)(exponent == 0 ? fraction : fraction | 1u << mantissa) * scale;
}

HONE_ELEMENT bool IsNan(int type, u64 bits) {
  switch (type) {
    case kTypeF16:
      return (bits & 0x7fffu) > 0x7c00u;
    case kTypeBF16:
      return (bits & 0x7fffu) > 0x7f80u;
    case kTypeF32:
      return (bits & 0x7fffffffu) > 0x7f800000u;
    case kTypeF64:
      return (bits & 0x7fffffffffffffffULL) > 0x7ff0000000000000ULL;
    case kTypeF8E4M3:
      return (bits & 0x7fu) == 0x7fu;
    case kTypeF8E5M2:
      return (bits & 0x7fu) > 0x7cu;
    default:
      return false;
  }
}

HONE_ELEMENT bool IsInfinite(int type, u64 bits) {
  switch (type) {
    case kTypeF16:
      return (bits & 0x7fffu) == 0x7c00u;
    case kTypeBF16:
      return (bits & 0x7fffu) == 0x7f80u;
    case kTypeF32:
      return (bits & 0x7fffffffu) == 0x7f800000u;
    case kTypeF64:
      return (bits & 0x7fffffffffffffffULL) == 0x7ff0000000000000ULL;
    case kTypeF8E5M2:
      return (bits & 0x7fu) == 0x7cu;
    default:
      return false;
  }
}

// The value as a double; 64-bit integers are rounded.
HONE_ELEMENT double Decode(int type, u64 bits) {
  switch (type) {
    case kTypeF32:
      return (double)BitsFloat((u32)bits);
    case kTypeF64:
      return BitsDouble(bits);
    case kTypeBF16:
      return (double)BitsFloat((u32)bits << 16);
    case kTypeF16:
    case kTypeF8E5M2:
    case kTypeF8E4M3: {
      const int width = type == kTypeF16 ? 16 : 8;
      const int mantissa = type == kTypeF16 ? 10 : type == kTypeF8E5M2 ? 2 : 3;
      const int bias = type == kTypeF8E4M3 ? 7 : 15;
      const u32 magnitude = (u32)bits & ((1u << (width - 1)) - 1u);
      const double sign = (bits >> (width - 1) & 1u) != 0 ? -1.0 : 1.0;
      if (IsNan(type, bits)) return BitsDouble(0x7ff8000000000000ULL);
      if (IsInfinite(type, bits)) return sign * BitsDouble(0x7ff0000000000000ULL);
      return sign * DecodeMagnitude(magnitude, mantissa, bias);
    }
    case kTypeI8:
      return (double)(signed char)(unsigned char)bits;
    case kTypeI16:
      return (double)(short)(unsigned short)bits;
    case kTypeI32:
      return (double)(int)(u32)bits;
    case kTypeI64:
      return (double)(i64)bits;
    default:
      return (double)bits;
  }
}

// ---- Generated data -----------------------------------------------------------------------------

// A counter-based generator: the n-th number of a seed without the ones before it.
HONE_ELEMENT u64 Random(u64 seed, u64 n) {
  u64 x = seed + (n + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// High half of a 128-bit product.
HONE_ELEMENT u64 MultiplyHigh(u64 a, u64 b) {
  const u64 a0 = a & 0xffffffffu, a1 = a >> 32;
  const u64 b0 = b & 0xffffffffu, b1 = b >> 32;
  const u64 middle = a1 * b0 + (a0 * b0 >> 32);
  const u64 other = a0 * b1 + (middle & 0xffffffffu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

// Uniform in [0, range); `range` 0 means 2^64.
HONE_ELEMENT u64 Below(u64 random, u64 range) {
  return range == 0 ? random : MultiplyHigh(random, range);
}

// A standard normal number times 2^25: twelve uniform 16-bit numbers summed (deviation 2^16),
// doubled, centred, with 8 more random bits so that mantissas are full. At most 6 deviations.
HONE_ELEMENT int ScaledNormal(u64 seed, u64 index) {
  int sum = 0;
  u64 x = 0;
  for (int word = 0; word < 3; ++word) {
    x = Random(seed, index * 3 + (u64)word);
    sum +=
        (int)(x & 0xffffu) + (int)(x >> 16 & 0xffffu) + (int)(x >> 32 & 0xffffu) + (int)(x >> 48);
  }
  const u32 low = (u32)(Random(seed ^ 0x5851f42d4c957f2dULL, index) >> 56);
  return (2 * sum - 12 * 65535) * 256 + (int)low;
}

// The index-th element of a permutation of 0 .. count - 1: a Feistel network over the smallest
// 4^k >= count, walked until it lands inside.
HONE_ELEMENT u64 Permuted(u64 seed, u64 index, u64 count) {
  int half = 1;
  while (half < 32 && (1ULL << (2 * half)) < count) ++half;
  const u64 mask = (1ULL << half) - 1;
  u64 x = index;
  do {
    u64 left = x >> half, right = x & mask;
    for (int round = 0; round < 4; ++round) {
      const u64 mixed = left ^ (Random(seed + (u64)round, right) & mask);
      left = right;
      right = mixed;
    }
    x = left << half | right;
  } while (x >= count);
  return x;
}

// The index-th of `count` non-decreasing offsets from 0 to `total`. Skew 0 spaces them evenly; with
// more, steps are jittered and grow towards the end.
HONE_ELEMENT u64 Offset(u64 seed, u64 index, u64 count, i64 total, double skew) {
  if (index == 0 || total <= 0) return 0;
  if (index + 1 >= count) return (u64)total;
  double position = (double)index;
  if (skew > 0) {
    const double share = skew < 1 ? skew : 1;
    const double jitter = Multiply((double)(Random(seed, index) >> 11), 1.0 / 9007199254740992.0);
    position = Add(position, Multiply(share, jitter));
  }
  const double t = position / (double)(count - 1);
  const double bent = t / Add(1.0, Multiply(skew, Add(1.0, -t)));
  const double value = Multiply((double)total, bent);
  return value >= (double)total ? (u64)total : (u64)value;
}

// An integer in the bits of any type; floats round to nearest, narrow integers wrap.
HONE_ELEMENT u64 EncodeInteger(int type, i64 x) {
  if (type == kTypeF64) return DoubleBits((double)x);
  if (IsFloating(type)) return EncodeFloat(type, (float)x);
  if (type == kTypeBool) return x != 0 ? 1 : 0;
  return (u64)x;
}

// Integers where a template asks for NORMAL or UNIFORM: small enough that sums stay in range, never
// a poison byte.
HONE_ELEMENT i64 SmallInteger(int type, u64 random) {
  if (type == kTypeBool) return (i64)(random >> 63);
  const bool is_unsigned =
      type == kTypeU8 || type == kTypeU16 || type == kTypeU32 || type == kTypeU64;
  return (i64)Below(random, 201) - (is_unsigned ? 0 : 100);
}

// Bits of element `index`, in the low ElementBytes(type) bytes.
HONE_ELEMENT u64 ElementBits(const FillParameters& p, u64 index) {
  switch (p.init) {
    case kInitNormal: {
      if (!IsFloating(p.type)) {
        return EncodeInteger(p.type, SmallInteger(p.type, Random(p.seed, index)));
      }
      const int scaled = ScaledNormal(p.seed, index);
      if (p.type == kTypeF64) return DoubleBits((double)scaled * (1.0 / 33554432.0));
      return EncodeFloat(p.type, (float)scaled * (1.0f / 33554432.0f));
    }
    case kInitUniform: {
      const u64 random = Random(p.seed, index);
      if (!IsFloating(p.type)) return EncodeInteger(p.type, SmallInteger(p.type, random));
      if (p.type == kTypeF64) {
        return DoubleBits((double)((i64)(random >> 11) - 4503599627370496LL) *
                          (1.0 / 4503599627370496.0));
      }
      return EncodeFloat(p.type, (float)((int)(random >> 40) - 8388608) * (1.0f / 8388608.0f));
    }
    case kInitUniformInt: {
      const u64 range = (u64)p.high - (u64)p.low + 1;
      return EncodeInteger(p.type, (i64)((u64)p.low + Below(Random(p.seed, index), range)));
    }
    case kInitIota:
      return EncodeInteger(p.type, (i64)index);
    case kInitIndex:
      return EncodeInteger(p.type,
                           p.high <= 0 ? 0 : (i64)Below(Random(p.seed, index), (u64)p.high));
    case kInitPermutation:
      return EncodeInteger(p.type, (i64)Permuted(p.seed, index, p.count));
    case kInitOffsets:
      return EncodeInteger(p.type, (i64)Offset(p.seed, index, p.count, p.high, p.skew));
    default:
      return 0;
  }
}

// ---- Comparison ---------------------------------------------------------------------------------

struct Difference {
  bool mismatch;
  double abs_error;  // infinite where the two are not comparable
  double rel_error;  // 0 where the reference is 0
};

HONE_ELEMENT u64 AllOnes(int type) { return ~0ULL >> (64 - 8 * ElementBytes(type)); }

// Equal bits match. Otherwise a NaN matches a NaN unless it is forbidden, except the one whose bits
// are all ones: that is what outputs are poisoned with, so it means "not written".
HONE_ELEMENT Difference ComparePair(const CompareParameters& p, u64 value, u64 reference) {
  const double infinity = BitsDouble(0x7ff0000000000000ULL);
  Difference result = {false, 0, 0};
  const bool value_nan = IsNan(p.type, value);
  if (value == reference) {
    result.mismatch = value_nan && p.nan_forbidden != 0 && value != AllOnes(p.type);
    return result;
  }
  const bool reference_nan = IsNan(p.type, reference);
  if (value_nan || reference_nan) {
    const bool both =
        value_nan && reference_nan && value != AllOnes(p.type) && reference != AllOnes(p.type);
    result.mismatch = !both || p.nan_forbidden != 0 || p.exact != 0;
    result.abs_error = both ? 0 : infinity;
    return result;
  }
  if (IsInfinite(p.type, value) || IsInfinite(p.type, reference)) {
    result.mismatch = true;
    result.abs_error = infinity;
    return result;
  }
  const double wanted = Decode(p.type, reference);
  const double error = Add(Decode(p.type, value), -wanted);
  result.abs_error = error < 0 ? -error : error;
  const double size = wanted < 0 ? -wanted : wanted;
  if (size > 0) result.rel_error = result.abs_error / size;
  result.mismatch = p.exact != 0 || result.abs_error > Add(p.atol, Multiply(p.rtol, size));
  return result;
}

// One 8-byte word's share of a buffer's checksum; the shares are added up modulo 2^64.
HONE_ELEMENT u64 ChecksumShare(u64 word, u64 word_index) {
  return Random(word ^ 0xd6e8feb86659fd93ULL, word_index);
}

}  // namespace element
}  // namespace hone
