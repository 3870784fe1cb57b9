// Float and double functions that CUDA has and the C library has not. Part of cuda_on_cpu.h.
#pragma once

#include "hone_cpu_block.h"

// glibc declares some of these names for itself with C linkage and exports none of them.
#define HONE_CPU_ALIAS(name, expression) \
  extern "C" inline float name(float x) noexcept(true) { return expression; }
HONE_CPU_ALIAS(__expf, expf(x))
HONE_CPU_ALIAS(__exp10f, exp10f(x))
HONE_CPU_ALIAS(__logf, logf(x))
HONE_CPU_ALIAS(__log2f, log2f(x))
HONE_CPU_ALIAS(__log10f, log10f(x))
HONE_CPU_ALIAS(__sinf, sinf(x))
HONE_CPU_ALIAS(__cosf, cosf(x))
HONE_CPU_ALIAS(__tanf, tanf(x))
HONE_CPU_ALIAS(__tanhf, tanhf(x))
#undef HONE_CPU_ALIAS
extern "C" inline float __powf(float x, float y) noexcept(true) { return powf(x, y); }
inline void __sincosf(float x, float* sine, float* cosine) {
  *sine = sinf(x);
  *cosine = cosf(x);
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline float fdividef(float x, float y) { return x / y; }
inline float __fdividef(float x, float y) { return x / y; }
inline float sinpif(float x) { return static_cast<float>(sin(M_PI * static_cast<double>(x))); }
inline float cospif(float x) { return static_cast<float>(cos(M_PI * static_cast<double>(x))); }
inline double sinpi(double x) { return sin(M_PI * remainder(x, 2.0)); }
inline double cospi(double x) { return cos(M_PI * remainder(x, 2.0)); }
inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
inline float erfcxf(float x) { return static_cast<float>(exp(double(x) * x) * erfc(double(x))); }
inline float norm3df(float a, float b, float c) { return sqrtf(a * a + b * b + c * c); }
inline float rnorm3df(float a, float b, float c) { return 1.0f / norm3df(a, b, c); }
inline float rhypotf(float a, float b) { return 1.0f / hypotf(a, b); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// Arithmetic that is never contracted to a fused multiply-add.
#define HONE_CPU_ROUNDED(type, prefix)         \
  inline type prefix##add_rn(type x, type y) { \
    volatile type z = x + y;                   \
    return z;                                  \
  }                                            \
  inline type prefix##sub_rn(type x, type y) { \
    volatile type z = x - y;                   \
    return z;                                  \
  }                                            \
  inline type prefix##mul_rn(type x, type y) { \
    volatile type z = x * y;                   \
    return z;                                  \
  }
HONE_CPU_ROUNDED(float, __f)
HONE_CPU_ROUNDED(double, __d)
#undef HONE_CPU_ROUNDED
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __fmaf_ieee_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __drcp_rn(double x) { return 1.0 / x; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

namespace hone_cpu {

// Conversions clamp and turn NaN into 0 as the GPU's do.
template <typename To, typename From>
To Clamped(From rounded) {
  if (rounded != rounded) return 0;
  constexpr From kLow = std::is_signed<To>::value ? -From(uint64_t(1) << (sizeof(To) * 8 - 1)) : 0;
  constexpr From kHigh =
      From(uint64_t(1) << (sizeof(To) * 8 - 1)) * (std::is_signed<To>::value ? 1 : 2);
  constexpr To kMax = std::is_signed<To>::value ? To((uint64_t(1) << (sizeof(To) * 8 - 1)) - 1)
                                                : To(~uint64_t(0) >> (64 - sizeof(To) * 8));
  if (rounded >= kHigh) return kMax;
  if (rounded < kLow) return static_cast<To>(kLow);
  return static_cast<To>(rounded);
}

}  // namespace hone_cpu

#define HONE_CPU_TO_INTEGER(from, From, to, To)                                          \
  inline To __##from##2##to##_rn(From x) { return hone_cpu::Clamped<To>(nearbyint(x)); } \
  inline To __##from##2##to##_rz(From x) { return hone_cpu::Clamped<To>(trunc(x)); }     \
  inline To __##from##2##to##_ru(From x) { return hone_cpu::Clamped<To>(ceil(x)); }      \
  inline To __##from##2##to##_rd(From x) { return hone_cpu::Clamped<To>(floor(x)); }
HONE_CPU_TO_INTEGER(float, float, int, int)
HONE_CPU_TO_INTEGER(float, float, uint, unsigned)
HONE_CPU_TO_INTEGER(float, float, ll, long long)
HONE_CPU_TO_INTEGER(float, float, ull, unsigned long long)
HONE_CPU_TO_INTEGER(double, double, int, int)
HONE_CPU_TO_INTEGER(double, double, uint, unsigned)
HONE_CPU_TO_INTEGER(double, double, ll, long long)
HONE_CPU_TO_INTEGER(double, double, ull, unsigned long long)
#undef HONE_CPU_TO_INTEGER

inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

inline int __float_as_int(float x) { return hone_cpu::FromBits<int>(hone_cpu::ToBits(x)); }
inline unsigned __float_as_uint(float x) {
  return hone_cpu::FromBits<unsigned>(hone_cpu::ToBits(x));
}
inline float __int_as_float(int x) { return hone_cpu::FromBits<float>(hone_cpu::ToBits(x)); }
inline float __uint_as_float(unsigned x) { return hone_cpu::FromBits<float>(hone_cpu::ToBits(x)); }
inline long long __double_as_longlong(double x) {
  return hone_cpu::FromBits<long long>(hone_cpu::ToBits(x));
}
inline double __longlong_as_double(long long x) {
  return hone_cpu::FromBits<double>(hone_cpu::ToBits(x));
}
inline int __double2hiint(double x) { return static_cast<int>(hone_cpu::ToBits(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(hone_cpu::ToBits(x)); }
inline double __hiloint2double(int high, int low) {
  return hone_cpu::FromBits<double>(static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 |
                                    static_cast<uint32_t>(low));
}
