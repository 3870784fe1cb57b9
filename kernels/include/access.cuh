// Several elements moved in one access, and their conversion from float.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// N elements, loaded and stored in pieces of at most 16 bytes.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T values[N];
};

template <int BYTES>
struct WordOf {
  using Type = uint4;
};
template <>
struct WordOf<1> {
  using Type = unsigned char;
};
template <>
struct WordOf<2> {
  using Type = unsigned short;
};
template <>
struct WordOf<4> {
  using Type = unsigned int;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};

// By words, because the compiler takes a struct apart and does not always put its accesses together
// again. Those of device memory stay in the order in which they are written down.
template <typename Word>
__device__ inline Word LoadWord(const Word* from) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Word) == 16) {
    Word word;
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(from));
    return word;
  } else if constexpr (sizeof(Word) == 8) {
    Word word;
    asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(word.x), "=r"(word.y) : "l"(from));
    return word;
  }
#endif
  return *from;
}

template <int N, typename T>
__device__ inline Pack<T, N> LoadPack(const T* from) {
  using Word = typename WordOf<sizeof(T) * N>::Type;
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(pack) / sizeof(Word)); ++i) {
    reinterpret_cast<Word*>(&pack)[i] = LoadWord(reinterpret_cast<const Word*>(from) + i);
  }
  return pack;
}

template <typename Word>
__device__ inline void StoreWord(Word* to, const Word& word) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Word) == 16) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word.x), "r"(word.y),
                 "r"(word.z), "r"(word.w)
                 : "memory");
    return;
  } else if constexpr (sizeof(Word) == 8) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(word.x), "r"(word.y) : "memory");
    return;
  }
#endif
  *to = word;
}

template <int N, typename T>
__device__ inline void StorePack(T* to, const Pack<T, N>& pack) {
  using Word = typename WordOf<sizeof(T) * N>::Type;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(pack) / sizeof(Word)); ++i) {
    StoreWord(reinterpret_cast<Word*>(to) + i, reinterpret_cast<const Word*>(&pack)[i]);
  }
}

// Two floats at once where the hardware converts two.
__device__ inline void FromFloats(float a, float b, float* to) {
  to[0] = a;
  to[1] = b;
}
__device__ inline void FromFloats(float a, float b, __half* to) {
  *reinterpret_cast<__half2*>(to) = __floats2half2_rn(a, b);
}
__device__ inline void FromFloats(float a, float b, __nv_bfloat16* to) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(a, b);
}

template <typename T, int N>
__device__ inline Pack<T, N> ToPack(const float (&values)[N]) {
  Pack<T, N> pack;
  if constexpr (N == 1) {
    pack.values[0] = static_cast<T>(values[0]);
  } else {
#pragma unroll
    for (int j = 0; j < N; j += 2) FromFloats(values[j], values[j + 1], &pack.values[j]);
  }
  return pack;
}
