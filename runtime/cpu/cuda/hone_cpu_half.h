// What the toolkit's 16-bit float headers declare for devices only, written once for both formats.
// Computed in float and rounded once at the end. Part of cuda_on_cpu.h.
#pragma once

#include "hone_cpu_atomics.h"
#include "hone_cpu_float.h"

#define HONE_CPU_HALF_UNARY(H, H2, FROM, name, expression) \
  inline H h##name(const H a) {                            \
    const float x = static_cast<float>(a);                 \
    return FROM(expression);                               \
  }                                                        \
  inline H2 h2##name(const H2 a) { return H2(h##name(H(a.x)), h##name(H(a.y))); }

#define HONE_CPU_HALF_MATH(H, H2, FROM)                    \
  HONE_CPU_HALF_UNARY(H, H2, FROM, ceil, ceilf(x))         \
  HONE_CPU_HALF_UNARY(H, H2, FROM, floor, floorf(x))       \
  HONE_CPU_HALF_UNARY(H, H2, FROM, rint, rintf(x))         \
  HONE_CPU_HALF_UNARY(H, H2, FROM, trunc, truncf(x))       \
  HONE_CPU_HALF_UNARY(H, H2, FROM, exp, expf(x))           \
  HONE_CPU_HALF_UNARY(H, H2, FROM, exp2, exp2f(x))         \
  HONE_CPU_HALF_UNARY(H, H2, FROM, exp10, exp10f(x))       \
  HONE_CPU_HALF_UNARY(H, H2, FROM, log, logf(x))           \
  HONE_CPU_HALF_UNARY(H, H2, FROM, log2, log2f(x))         \
  HONE_CPU_HALF_UNARY(H, H2, FROM, log10, log10f(x))       \
  HONE_CPU_HALF_UNARY(H, H2, FROM, sin, sinf(x))           \
  HONE_CPU_HALF_UNARY(H, H2, FROM, cos, cosf(x))           \
  HONE_CPU_HALF_UNARY(H, H2, FROM, sqrt, sqrtf(x))         \
  HONE_CPU_HALF_UNARY(H, H2, FROM, rsqrt, 1.0f / sqrtf(x)) \
  HONE_CPU_HALF_UNARY(H, H2, FROM, rcp, 1.0f / x)          \
  HONE_CPU_HALF_UNARY(H, H2, FROM, tanh, tanhf(x))         \
  HONE_CPU_HALF_UNARY(H, H2, FROM, tanh_approx, tanhf(x))

#define HONE_CPU_HALF_FMA_FORM(H, H2, FROM, suffix, expression)                                \
  inline H __hfma##suffix(const H a, const H b, const H c) {                                   \
    const float x = fmaf(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)); \
    return FROM(expression);                                                                   \
  }                                                                                            \
  inline H2 __hfma2##suffix(const H2 a, const H2 b, const H2 c) {                              \
    return H2(__hfma##suffix(H(a.x), H(b.x), H(c.x)), __hfma##suffix(H(a.y), H(b.y), H(c.y))); \
  }

#define HONE_CPU_HALF_FMA(H, H2, FROM)                                            \
  HONE_CPU_HALF_FMA_FORM(H, H2, FROM, , x)                                        \
  HONE_CPU_HALF_FMA_FORM(H, H2, FROM, _sat, __saturatef(x))                       \
  HONE_CPU_HALF_FMA_FORM(H, H2, FROM, _relu, x < 0.0f ? 0.0f : x)                 \
  inline H2 __hcmadd(const H2 a, const H2 b, const H2 c) {                        \
    const float ax = static_cast<float>(H(a.x)), ay = static_cast<float>(H(a.y)); \
    const float bx = static_cast<float>(H(b.x)), by = static_cast<float>(H(b.y)); \
    return H2(FROM(fmaf(-ay, by, fmaf(ax, bx, static_cast<float>(H(c.x))))),      \
              FROM(fmaf(ay, bx, fmaf(ax, by, static_cast<float>(H(c.y))))));      \
  }

#define HONE_CPU_HALF_TO_INTEGER(H, name, Name, type, wide)                           \
  inline type __##name##2##Name##_rn(const H a) {                                     \
    return hone_cpu::Clamped<type>(static_cast<wide>(rintf(static_cast<float>(a))));  \
  }                                                                                   \
  inline type __##name##2##Name##_ru(const H a) {                                     \
    return hone_cpu::Clamped<type>(static_cast<wide>(ceilf(static_cast<float>(a))));  \
  }                                                                                   \
  inline type __##name##2##Name##_rd(const H a) {                                     \
    return hone_cpu::Clamped<type>(static_cast<wide>(floorf(static_cast<float>(a)))); \
  }
#define HONE_CPU_HALF_TO_INTEGERS(H, name)                         \
  HONE_CPU_HALF_TO_INTEGER(H, name, short, short, float)           \
  HONE_CPU_HALF_TO_INTEGER(H, name, ushort, unsigned short, float) \
  HONE_CPU_HALF_TO_INTEGER(H, name, int, int, double)              \
  HONE_CPU_HALF_TO_INTEGER(H, name, uint, unsigned, double)        \
  HONE_CPU_HALF_TO_INTEGER(H, name, ll, long long, double)         \
  HONE_CPU_HALF_TO_INTEGER(H, name, ull, unsigned long long, double)

#define HONE_CPU_HALF_ATOMICS(H, H2)                                                         \
  HONE_CPU_ATOMIC(H, atomicAdd, (H * address, H value), (address, value), {                  \
    return hone_cpu::AtomicUpdate(address, [value](H old) { return H(old + value); });       \
  })                                                                                         \
  HONE_CPU_ATOMIC(H2, atomicAdd, (H2 * address, H2 value), (address, value), {               \
    return hone_cpu::AtomicUpdate(address, [value](H2 old) { return __hadd2(old, value); }); \
  })
