// Atomics. Every form is sequentially consistent and system-wide, which is more than the relaxed
// ones of a GPU promise. Part of cuda_on_cpu.h.
#pragma once

#include "hone_cpu_block.h"

namespace hone_cpu {

// Replaces *address by update(old) atomically and returns old; for types whose update is not one
// instruction.
template <typename T, typename Update>
T AtomicUpdate(T* address, Update update) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "size of an atomic");
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t,
                                  std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  // may_alias: the memory holds a T and is exchanged as an integer.
  typedef Bits __attribute__((may_alias)) AliasedBits;
  AliasedBits* bits = reinterpret_cast<AliasedBits*>(address);
  Bits old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  for (;;) {
    const T before = FromBits<T>(old);
    const Bits wanted = static_cast<Bits>(ToBits<T>(update(before)));
    if (__atomic_compare_exchange_n(bits, &old, wanted, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
      return before;
    }
  }
}

}  // namespace hone_cpu

// Defines a function and its _block and _system forms.
#define HONE_CPU_ATOMIC(T, name, parameters, arguments, body)                               \
  inline T name parameters body inline T name##_block parameters { return name arguments; } \
  inline T name##_system parameters { return name arguments; }

#define HONE_CPU_ATOMIC_INTEGER(T)                                                                \
  HONE_CPU_ATOMIC(T, atomicAdd, (T * address, T value), (address, value),                         \
                  { return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST); })               \
  HONE_CPU_ATOMIC(T, atomicSub, (T * address, T value), (address, value),                         \
                  { return __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST); })               \
  HONE_CPU_ATOMIC(T, atomicAnd, (T * address, T value), (address, value),                         \
                  { return __atomic_fetch_and(address, value, __ATOMIC_SEQ_CST); })               \
  HONE_CPU_ATOMIC(T, atomicOr, (T * address, T value), (address, value),                          \
                  { return __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST); })                \
  HONE_CPU_ATOMIC(T, atomicXor, (T * address, T value), (address, value),                         \
                  { return __atomic_fetch_xor(address, value, __ATOMIC_SEQ_CST); })               \
  HONE_CPU_ATOMIC(T, atomicExch, (T * address, T value), (address, value),                        \
                  { return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST); })              \
  HONE_CPU_ATOMIC(T, atomicCAS, (T * address, T compare, T value), (address, compare, value), {   \
    __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_SEQ_CST,                \
                                __ATOMIC_SEQ_CST);                                                \
    return compare;                                                                               \
  })                                                                                              \
  HONE_CPU_ATOMIC(T, atomicMin, (T * address, T value), (address, value), {                       \
    return hone_cpu::AtomicUpdate(address, [value](T old) { return value < old ? value : old; }); \
  })                                                                                              \
  HONE_CPU_ATOMIC(T, atomicMax, (T * address, T value), (address, value), {                       \
    return hone_cpu::AtomicUpdate(address, [value](T old) { return old < value ? value : old; }); \
  })
HONE_CPU_ATOMIC_INTEGER(int)
HONE_CPU_ATOMIC_INTEGER(unsigned)
HONE_CPU_ATOMIC_INTEGER(long long)
HONE_CPU_ATOMIC_INTEGER(unsigned long long)
#undef HONE_CPU_ATOMIC_INTEGER

HONE_CPU_ATOMIC(unsigned, atomicInc, (unsigned* address, unsigned limit), (address, limit), {
  return hone_cpu::AtomicUpdate(address,
                                [limit](unsigned old) { return old >= limit ? 0 : old + 1; });
})
HONE_CPU_ATOMIC(unsigned, atomicDec, (unsigned* address, unsigned limit), (address, limit), {
  return hone_cpu::AtomicUpdate(
      address, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
})

#define HONE_CPU_ATOMIC_FLOAT(T)                                                    \
  HONE_CPU_ATOMIC(T, atomicAdd, (T * address, T value), (address, value), {         \
    return hone_cpu::AtomicUpdate(address, [value](T old) { return old + value; }); \
  })                                                                                \
  HONE_CPU_ATOMIC(T, atomicExch, (T * address, T value), (address, value),          \
                  { return hone_cpu::AtomicUpdate(address, [value](T) { return value; }); })
HONE_CPU_ATOMIC_FLOAT(float)
HONE_CPU_ATOMIC_FLOAT(double)

inline unsigned short atomicCAS(unsigned short* address, unsigned short compare,
                                unsigned short value) {
  __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return compare;
}
