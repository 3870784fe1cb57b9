// Float, double and integer intrinsics. Approximate ones are the exact library function: a CPU
// result is at least as accurate as the GPU's. Part of cuda_on_cpu.h.
#pragma once

#include "hone_cpu_float.h"
#include "hone_cpu_integer.h"

// min and max over every pair of arithmetic types, as CUDA's overloads: the usual conversions
// apply.
template <typename A, typename B,
          typename = std::enable_if_t<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value>>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point<T>::value) {
    const T x = a, y = b;
    return x != x ? y : (y != y ? x : (y < x ? y : x));
  } else {
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
  }
}
template <typename A, typename B,
          typename = std::enable_if_t<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value>>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point<T>::value) {
    const T x = a, y = b;
    return x != x ? y : (y != y ? x : (x < y ? y : x));
  } else {
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
  }
}
