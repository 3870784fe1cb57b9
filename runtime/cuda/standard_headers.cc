#include "runtime/cuda/standard_headers.h"

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

// The widths are those of libcu++, so that both can be included in any order.
constexpr char kStdint[] = R"cuda(#pragma once
#if __has_include(<cuda/std/cstdint>)
#include <cuda/std/cstdint>
#else
#include <climits>
typedef signed char int8_t;
typedef signed short int16_t;
typedef signed int int32_t;
typedef signed long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int8_t int_least8_t;
typedef int16_t int_least16_t;
typedef int32_t int_least32_t;
typedef int64_t int_least64_t;
typedef uint8_t uint_least8_t;
typedef uint16_t uint_least16_t;
typedef uint32_t uint_least32_t;
typedef uint64_t uint_least64_t;
typedef int8_t int_fast8_t;
typedef int16_t int_fast16_t;
typedef int32_t int_fast32_t;
typedef int64_t int_fast64_t;
typedef uint8_t uint_fast8_t;
typedef uint16_t uint_fast16_t;
typedef uint32_t uint_fast32_t;
typedef uint64_t uint_fast64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
#define INT8_MIN SCHAR_MIN
#define INT16_MIN SHRT_MIN
#define INT32_MIN INT_MIN
#define INT64_MIN LLONG_MIN
#define INT8_MAX SCHAR_MAX
#define INT16_MAX SHRT_MAX
#define INT32_MAX INT_MAX
#define INT64_MAX LLONG_MAX
#define UINT8_MAX UCHAR_MAX
#define UINT16_MAX USHRT_MAX
#define UINT32_MAX UINT_MAX
#define UINT64_MAX ULLONG_MAX
#define INTPTR_MIN INT64_MIN
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define INTMAX_MIN INT64_MIN
#define INTMAX_MAX INT64_MAX
#define UINTMAX_MAX UINT64_MAX
#define SIZE_MAX ULONG_MAX
#endif
)cuda";

constexpr char kCstdint[] = R"cuda(#pragma once
#include <stdint.h>
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
using ::int_least8_t; using ::int_least16_t; using ::int_least32_t; using ::int_least64_t;
using ::uint_least8_t; using ::uint_least16_t; using ::uint_least32_t; using ::uint_least64_t;
using ::int_fast8_t; using ::int_fast16_t; using ::int_fast32_t; using ::int_fast64_t;
using ::uint_fast8_t; using ::uint_fast16_t; using ::uint_fast32_t; using ::uint_fast64_t;
using ::intptr_t; using ::uintptr_t; using ::intmax_t; using ::uintmax_t;
}
)cuda";

constexpr char kLimits[] = R"cuda(#pragma once
#if __has_include(<cuda/std/climits>)
#include <cuda/std/climits>
#endif
#ifndef CHAR_BIT
#define CHAR_BIT 8
#endif
#ifndef SCHAR_MIN
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#endif
#ifndef CHAR_MIN
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#endif
#ifndef SHRT_MIN
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#endif
#ifndef INT_MIN
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#endif
#ifndef LONG_MIN
#define LONG_MIN (-9223372036854775807L - 1)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#endif
#ifndef LLONG_MIN
#define LLONG_MIN (-9223372036854775807LL - 1)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL
#endif
)cuda";

constexpr char kStddef[] = R"cuda(#pragma once
#if __has_include(<cuda/std/cstddef>)
#include <cuda/std/cstddef>
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
typedef decltype(sizeof(0)) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
)cuda";

constexpr char kCstddef[] = R"cuda(#pragma once
#include <stddef.h>
namespace std {
using ::size_t;
using ::ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
#if __has_include(<cuda/std/cstddef>)
using ::cuda::std::byte;
using ::cuda::std::max_align_t;
#endif
}
)cuda";

constexpr char kTypeTraits[] = R"cuda(#pragma once
namespace std {
template <class T, T v> struct integral_constant {
  static constexpr T value = v;
  using value_type = T;
  using type = integral_constant;
  __host__ __device__ constexpr operator value_type() const noexcept { return v; }
  __host__ __device__ constexpr value_type operator()() const noexcept { return v; }
};
template <bool v> using bool_constant = integral_constant<bool, v>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <class T> struct type_identity { using type = T; };
template <class T> using type_identity_t = typename type_identity<T>::type;
template <class...> using void_t = void;
template <bool, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool b, class T = void> using enable_if_t = typename enable_if<b, T>::type;
template <bool, class T, class F> struct conditional { using type = T; };
template <class T, class F> struct conditional<false, T, F> { using type = F; };
template <bool b, class T, class F> using conditional_t = typename conditional<b, T, F>::type;

template <class T, class U> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};

template <class T> struct remove_const { using type = T; };
template <class T> struct remove_const<const T> { using type = T; };
template <class T> struct remove_volatile { using type = T; };
template <class T> struct remove_volatile<volatile T> { using type = T; };
template <class T> struct remove_cv { using type = T; };
template <class T> struct remove_cv<const T> { using type = T; };
template <class T> struct remove_cv<volatile T> { using type = T; };
template <class T> struct remove_cv<const volatile T> { using type = T; };
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T&> { using type = T; };
template <class T> struct remove_reference<T&&> { using type = T; };
template <class T> struct remove_extent { using type = T; };
template <class T> struct remove_extent<T[]> { using type = T; };
template <class T, decltype(sizeof(0)) n> struct remove_extent<T[n]> { using type = T; };
template <class T> struct remove_all_extents { using type = T; };
template <class T> struct remove_all_extents<T[]> : remove_all_extents<T> {};
template <class T, decltype(sizeof(0)) n> struct remove_all_extents<T[n]> : remove_all_extents<T> {};
template <class T> struct remove_pointer { using type = T; };
template <class T> struct remove_pointer<T*> { using type = T; };
template <class T> struct remove_pointer<T* const> { using type = T; };
template <class T> struct remove_pointer<T* volatile> { using type = T; };
template <class T> struct remove_pointer<T* const volatile> { using type = T; };
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_volatile_t = typename remove_volatile<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_extent_t = typename remove_extent<T>::type;
template <class T> using remove_all_extents_t = typename remove_all_extents<T>::type;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> struct remove_cvref { using type = remove_cv_t<remove_reference_t<T>>; };
template <class T> using remove_cvref_t = typename remove_cvref<T>::type;

template <class T> struct add_const { using type = const T; };
template <class T> struct add_volatile { using type = volatile T; };
template <class T> struct add_cv { using type = const volatile T; };
template <class T> using add_const_t = typename add_const<T>::type;
template <class T> using add_volatile_t = typename add_volatile<T>::type;
template <class T> using add_cv_t = typename add_cv<T>::type;
namespace __hone {
template <class T> __host__ __device__ type_identity<T&> __lvalue(int);
template <class T> __host__ __device__ type_identity<T> __lvalue(...);
template <class T> __host__ __device__ type_identity<T&&> __rvalue(int);
template <class T> __host__ __device__ type_identity<T> __rvalue(...);
template <class T> __host__ __device__ type_identity<remove_reference_t<T>*> __pointer(int);
template <class T> __host__ __device__ type_identity<T> __pointer(...);
}
template <class T> struct add_lvalue_reference : decltype(__hone::__lvalue<T>(0)) {};
template <class T> struct add_rvalue_reference : decltype(__hone::__rvalue<T>(0)) {};
template <class T> struct add_pointer : decltype(__hone::__pointer<T>(0)) {};
template <class T> using add_lvalue_reference_t = typename add_lvalue_reference<T>::type;
template <class T> using add_rvalue_reference_t = typename add_rvalue_reference<T>::type;
template <class T> using add_pointer_t = typename add_pointer<T>::type;
template <class T> __host__ __device__ add_rvalue_reference_t<T> declval() noexcept;

template <class T> struct is_void : is_same<remove_cv_t<T>, void> {};
template <class T> struct is_null_pointer : is_same<remove_cv_t<T>, decltype(nullptr)> {};
template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_volatile : false_type {};
template <class T> struct is_volatile<volatile T> : true_type {};
template <class T> struct is_lvalue_reference : false_type {};
template <class T> struct is_lvalue_reference<T&> : true_type {};
template <class T> struct is_rvalue_reference : false_type {};
template <class T> struct is_rvalue_reference<T&&> : true_type {};
template <class T> struct is_reference
    : bool_constant<is_lvalue_reference<T>::value || is_rvalue_reference<T>::value> {};
template <class T> struct is_array : false_type {};
template <class T> struct is_array<T[]> : true_type {};
template <class T, decltype(sizeof(0)) n> struct is_array<T[n]> : true_type {};
template <class T> struct is_pointer : false_type {};
template <class T> struct is_pointer<T*> : true_type {};
template <class T> struct is_pointer<T* const> : true_type {};
template <class T> struct is_pointer<T* volatile> : true_type {};
template <class T> struct is_pointer<T* const volatile> : true_type {};

namespace __hone {
template <class T> struct __integral : false_type {};
template <> struct __integral<bool> : true_type {};
template <> struct __integral<char> : true_type {};
template <> struct __integral<signed char> : true_type {};
template <> struct __integral<unsigned char> : true_type {};
template <> struct __integral<wchar_t> : true_type {};
template <> struct __integral<char16_t> : true_type {};
template <> struct __integral<char32_t> : true_type {};
template <> struct __integral<short> : true_type {};
template <> struct __integral<unsigned short> : true_type {};
template <> struct __integral<int> : true_type {};
template <> struct __integral<unsigned int> : true_type {};
template <> struct __integral<long> : true_type {};
template <> struct __integral<unsigned long> : true_type {};
template <> struct __integral<long long> : true_type {};
template <> struct __integral<unsigned long long> : true_type {};
template <class T> struct __floating : false_type {};
template <> struct __floating<float> : true_type {};
template <> struct __floating<double> : true_type {};
template <class T> struct __sign { using s = T; using u = T; };
template <> struct __sign<char> { using s = signed char; using u = unsigned char; };
template <> struct __sign<signed char> { using s = signed char; using u = unsigned char; };
template <> struct __sign<unsigned char> { using s = signed char; using u = unsigned char; };
template <> struct __sign<short> { using s = short; using u = unsigned short; };
template <> struct __sign<unsigned short> { using s = short; using u = unsigned short; };
template <> struct __sign<int> { using s = int; using u = unsigned int; };
template <> struct __sign<unsigned int> { using s = int; using u = unsigned int; };
template <> struct __sign<long> { using s = long; using u = unsigned long; };
template <> struct __sign<unsigned long> { using s = long; using u = unsigned long; };
template <> struct __sign<long long> { using s = long long; using u = unsigned long long; };
template <> struct __sign<unsigned long long> { using s = long long; using u = unsigned long long; };
}
template <class T> struct is_integral : __hone::__integral<remove_cv_t<T>> {};
template <class T> struct is_floating_point : __hone::__floating<remove_cv_t<T>> {};
template <class T> struct is_arithmetic
    : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
namespace __hone {
template <class T, bool = is_arithmetic<T>::value> struct __signed : bool_constant<(T(-1) < T(0))> {};
template <class T> struct __signed<T, false> : false_type {};
template <class T, bool = is_arithmetic<T>::value> struct __unsigned : bool_constant<(T(0) < T(-1))> {};
template <class T> struct __unsigned<T, false> : false_type {};
}
template <class T> struct is_signed : __hone::__signed<remove_cv_t<T>> {};
template <class T> struct is_unsigned : __hone::__unsigned<remove_cv_t<T>> {};
template <class T> struct make_signed { using type = typename __hone::__sign<remove_cv_t<T>>::s; };
template <class T> struct make_unsigned { using type = typename __hone::__sign<remove_cv_t<T>>::u; };
template <class T> using make_signed_t = typename make_signed<T>::type;
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;

template <class T> struct is_enum : bool_constant<__is_enum(T)> {};
template <class T> struct is_class : bool_constant<__is_class(T)> {};
template <class T> struct is_union : bool_constant<__is_union(T)> {};
template <class T> struct is_function : bool_constant<__is_function(T)> {};
template <class T> struct is_empty : bool_constant<__is_empty(T)> {};
template <class T> struct is_final : bool_constant<__is_final(T)> {};
template <class T> struct is_abstract : bool_constant<__is_abstract(T)> {};
template <class T> struct is_polymorphic : bool_constant<__is_polymorphic(T)> {};
template <class T> struct is_aggregate : bool_constant<__is_aggregate(T)> {};
template <class T> struct is_trivial : bool_constant<__is_trivial(T)> {};
template <class T> struct is_standard_layout : bool_constant<__is_standard_layout(T)> {};
template <class T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <class T> struct is_trivially_destructible : bool_constant<__is_trivially_destructible(T)> {};
template <class T> struct is_destructible : bool_constant<__is_destructible(T)> {};
template <class B, class D> struct is_base_of : bool_constant<__is_base_of(B, D)> {};
template <class F, class T> struct is_convertible : bool_constant<__is_convertible_to(F, T)> {};
template <class T, class... A> struct is_constructible : bool_constant<__is_constructible(T, A...)> {};
template <class T, class... A> struct is_nothrow_constructible
    : bool_constant<__is_nothrow_constructible(T, A...)> {};
template <class T, class... A> struct is_trivially_constructible
    : bool_constant<__is_trivially_constructible(T, A...)> {};
template <class T> struct is_default_constructible : is_constructible<T> {};
template <class T> struct is_copy_constructible : is_constructible<T, add_lvalue_reference_t<const T>> {};
template <class T> struct is_move_constructible : is_constructible<T, add_rvalue_reference_t<T>> {};
template <class T, class U> struct is_assignable : bool_constant<__is_assignable(T, U)> {};
template <class T> struct is_copy_assignable
    : is_assignable<add_lvalue_reference_t<T>, add_lvalue_reference_t<const T>> {};
template <class T> struct is_move_assignable
    : is_assignable<add_lvalue_reference_t<T>, add_rvalue_reference_t<T>> {};
template <class T> struct is_fundamental
    : bool_constant<is_arithmetic<T>::value || is_void<T>::value || is_null_pointer<T>::value> {};
template <class T> struct is_scalar
    : bool_constant<is_arithmetic<T>::value || is_enum<T>::value || is_pointer<T>::value ||
                    is_null_pointer<T>::value> {};
template <class T> struct is_object
    : bool_constant<!is_function<T>::value && !is_reference<T>::value && !is_void<T>::value> {};
template <class T> struct alignment_of : integral_constant<decltype(sizeof(0)), alignof(T)> {};
template <class T> struct rank : integral_constant<decltype(sizeof(0)), 0> {};
template <class T> struct rank<T[]> : integral_constant<decltype(sizeof(0)), rank<T>::value + 1> {};
template <class T, decltype(sizeof(0)) n> struct rank<T[n]>
    : integral_constant<decltype(sizeof(0)), rank<T>::value + 1> {};
template <class T> struct underlying_type { using type = __underlying_type(T); };
template <class T> using underlying_type_t = typename underlying_type<T>::type;

template <class T> struct decay {
  using U = remove_reference_t<T>;
  using type = conditional_t<is_array<U>::value, remove_extent_t<U>*,
                             conditional_t<is_function<U>::value, add_pointer_t<U>, remove_cv_t<U>>>;
};
template <class T> using decay_t = typename decay<T>::type;
template <class... T> struct common_type {};
template <class T> struct common_type<T> { using type = decay_t<T>; };
template <class T, class U> struct common_type<T, U> {
  using type = decay_t<decltype(false ? declval<T>() : declval<U>())>;
};
template <class T, class U, class... R> struct common_type<T, U, R...>
    : common_type<typename common_type<T, U>::type, R...> {};
template <class... T> using common_type_t = typename common_type<T...>::type;

template <class...> struct conjunction : true_type {};
template <class B> struct conjunction<B> : B {};
template <class B, class... R> struct conjunction<B, R...>
    : conditional_t<bool(B::value), conjunction<R...>, B> {};
template <class...> struct disjunction : false_type {};
template <class B> struct disjunction<B> : B {};
template <class B, class... R> struct disjunction<B, R...>
    : conditional_t<bool(B::value), B, disjunction<R...>> {};
template <class B> struct negation : bool_constant<!bool(B::value)> {};

#define HONE_TRAIT_V(name) template <class T> constexpr bool name##_v = name<T>::value;
HONE_TRAIT_V(is_void) HONE_TRAIT_V(is_null_pointer) HONE_TRAIT_V(is_const) HONE_TRAIT_V(is_volatile)
HONE_TRAIT_V(is_lvalue_reference) HONE_TRAIT_V(is_rvalue_reference) HONE_TRAIT_V(is_reference)
HONE_TRAIT_V(is_array) HONE_TRAIT_V(is_pointer) HONE_TRAIT_V(is_integral)
HONE_TRAIT_V(is_floating_point) HONE_TRAIT_V(is_arithmetic) HONE_TRAIT_V(is_signed)
HONE_TRAIT_V(is_unsigned) HONE_TRAIT_V(is_enum) HONE_TRAIT_V(is_class) HONE_TRAIT_V(is_union)
HONE_TRAIT_V(is_function) HONE_TRAIT_V(is_empty) HONE_TRAIT_V(is_final) HONE_TRAIT_V(is_abstract)
HONE_TRAIT_V(is_polymorphic) HONE_TRAIT_V(is_aggregate) HONE_TRAIT_V(is_trivial)
HONE_TRAIT_V(is_standard_layout) HONE_TRAIT_V(is_trivially_copyable)
HONE_TRAIT_V(is_trivially_destructible) HONE_TRAIT_V(is_destructible)
HONE_TRAIT_V(is_default_constructible) HONE_TRAIT_V(is_copy_constructible)
HONE_TRAIT_V(is_move_constructible) HONE_TRAIT_V(is_copy_assignable)
HONE_TRAIT_V(is_move_assignable) HONE_TRAIT_V(is_fundamental) HONE_TRAIT_V(is_scalar)
HONE_TRAIT_V(is_object) HONE_TRAIT_V(negation)
#undef HONE_TRAIT_V
template <class T, class U> constexpr bool is_same_v = is_same<T, U>::value;
template <class B, class D> constexpr bool is_base_of_v = is_base_of<B, D>::value;
template <class F, class T> constexpr bool is_convertible_v = is_convertible<F, T>::value;
template <class T, class U> constexpr bool is_assignable_v = is_assignable<T, U>::value;
template <class T, class... A> constexpr bool is_constructible_v = is_constructible<T, A...>::value;
template <class T, class... A> constexpr bool is_nothrow_constructible_v =
    is_nothrow_constructible<T, A...>::value;
template <class T, class... A> constexpr bool is_trivially_constructible_v =
    is_trivially_constructible<T, A...>::value;
template <class... B> constexpr bool conjunction_v = conjunction<B...>::value;
template <class... B> constexpr bool disjunction_v = disjunction<B...>::value;
template <class T> constexpr decltype(sizeof(0)) alignment_of_v = alignof(T);
template <class T> constexpr decltype(sizeof(0)) rank_v = rank<T>::value;
}
)cuda";

constexpr char kAlgorithm[] = R"cuda(#pragma once
namespace std {
template <class T> __host__ __device__ constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <class T> __host__ __device__ constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <class T>
__host__ __device__ constexpr const T& clamp(const T& v, const T& low, const T& high) {
  return v < low ? low : high < v ? high : v;
}
}
)cuda";

// NVRTC knows assert, memcpy and the mathematical functions without a header.
constexpr char kEmpty[] = "#pragma once\n";

// libcu++ under the standard's names.
std::string ThroughLibcu(const char* name) {
  return absl::StrCat("#pragma once\n#if !__has_include(<cuda/std/", name, ">)\n#error <", name,
                      "> needs the CCCL headers, which were not found beside NVRTC\n#endif\n",
                      "#include <cuda/std/", name,
                      ">\nnamespace std {\nusing namespace ::cuda::std;\n}\n");
}

std::vector<SourceFile> MakeHeaders() {
  std::vector<SourceFile> headers = {
      {"stdint.h", kStdint},
      {"cstdint", kCstdint},
      {"limits.h", kLimits},
      {"climits", "#pragma once\n#include <limits.h>\n"},
      {"stddef.h", kStddef},
      {"cstddef", kCstddef},
      {"type_traits", kTypeTraits},
      {"assert.h", kEmpty},
      {"cassert", kEmpty},
      {"math.h", kEmpty},
      {"algorithm", kAlgorithm},
      {"string.h", kEmpty},
      {"cstring", "#pragma once\nnamespace std {\nusing ::memcpy;\nusing ::memset;\n}\n"},
  };
  for (const char* name :
       {"array", "bit", "cmath", "complex", "concepts", "functional", "initializer_list",
        "iterator", "limits", "numeric", "optional", "ratio", "span", "tuple", "utility"}) {
    headers.push_back({name, ThroughLibcu(name)});
  }
  return headers;
}

}  // namespace

const std::vector<SourceFile>& StandardHeaders() {
  static const std::vector<SourceFile>& headers = *new std::vector<SourceFile>(MakeHeaders());
  return headers;
}

}  // namespace hone
