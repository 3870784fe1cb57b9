// What threads find out together: values that merge, and how lanes of a warp merge theirs. A result
// depends on the order of merging only by rounding.
#pragma once

__device__ inline float Infinity() { return __int_as_float(0x7f800000); }

// What shuffles and distributed shared memory move.
template <typename V>
union Words {
  V value;
  unsigned int words[sizeof(V) / 4];
  __device__ Words() {}
  __device__ Words(const V& v) : value(v) {}
};

// Merges the values of each LANES neighbouring lanes of a warp; all of them get the result.
template <int LANES, typename V, typename Merge>
__device__ inline V MergeLanes(V value, Merge merge) {
#pragma unroll
  for (int offset = LANES / 2; offset > 0; offset /= 2) {
    const Words<V> mine(value);
    Words<V> other;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(V) / 4); ++i) {
      other.words[i] = __shfl_xor_sync(0xffffffffu, mine.words[i], offset);
    }
    value = merge(value, other.value);
  }
  return value;
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
// The larger, and NaN rather than any number, as in PyTorch.
struct Larger {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

// The largest, and the first place that has it. INDEX is unsigned, -1 stands for no place.
template <typename INDEX>
struct Best {
  float value;
  INDEX index;
};
// Whether an element takes the place of `best`: NaN does, of any number.
template <typename INDEX>
__device__ inline bool Beats(float value, const Best<INDEX>& best) {
  return !(value <= best.value) && best.value == best.value;
}
struct Better {
  template <typename INDEX>
  __device__ Best<INDEX> operator()(const Best<INDEX>& a, const Best<INDEX>& b) const {
    if (Beats(b.value, a)) return b;
    if (Beats(a.value, b)) return a;
    return a.index <= b.index ? a : b;
  }
};

// Mean and sum of squared differences from it, of `count` numbers: these do not cancel as the sum of
// squares would. Merged as by Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
// computing sample variances" (1979).
template <typename COUNT>
struct Moments {
  COUNT count;
  float mean;
  float squares;
};
struct MergeMoments {
  template <typename COUNT>
  __device__ Moments<COUNT> operator()(const Moments<COUNT>& a, const Moments<COUNT>& b) const {
    const COUNT count = a.count + b.count;
    // Of nothing there is no mean, which an infinite one should not meet.
    const float apart = b.count > 0 ? b.mean - a.mean : 0.0f;
    const float share =
        b.count > 0 ? __fdividef(static_cast<float>(b.count), static_cast<float>(count)) : 0.0f;
    return {count, a.mean + apart * share,
            a.squares + b.squares + apart * apart * static_cast<float>(a.count) * share};
  }
};

enum class Op { sum, maximum, argmax, mean_variance };

// What is known of some elements, of none, and how it merges.
template <Op OP, typename INDEX, typename COUNT>
struct Reduction;
template <typename INDEX, typename COUNT>
struct Reduction<Op::sum, INDEX, COUNT> {
  using Value = float;
  using Merge = Sum;
  __device__ static Value None() { return 0.0f; }
};
template <typename INDEX, typename COUNT>
struct Reduction<Op::maximum, INDEX, COUNT> {
  using Value = float;
  using Merge = Larger;
  __device__ static Value None() { return -Infinity(); }
};
template <typename INDEX, typename COUNT>
struct Reduction<Op::argmax, INDEX, COUNT> {
  using Value = Best<INDEX>;
  using Merge = Better;
  __device__ static Value None() { return {-Infinity(), static_cast<INDEX>(-1)}; }
};
template <typename INDEX, typename COUNT>
struct Reduction<Op::mean_variance, INDEX, COUNT> {
  using Value = Moments<COUNT>;
  using Merge = MergeMoments;
  __device__ static Value None() { return {}; }
};
