// Rotary position embedding of queries and keys, out of place or in place.
//
// A block takes TOKENS tokens; GROUPS groups of LANES threads share a token's heads, and load the
// cosines and sines of their pairs once for all of them. See rope.cuh.
#include "rope.cuh"

template <typename T, typename INDEX, int Q_HEADS, int KV_HEADS, int HEAD_DIM, int ROTARY_DIM,
          Layout LAYOUT, Rotation ROTATION, int VEC, int LANES, int GROUPS, int TOKENS, int UNROLL>
__global__ void __launch_bounds__(LANES* GROUPS* TOKENS)
    rope(T* q_out, T* k_out, const T* q, const T* k, const INDEX* positions, const float* rotation,
         long long tokens) {
  using Shape = HeadShape<LAYOUT, ROTATION, HEAD_DIM, ROTARY_DIM, VEC, LANES>;
  constexpr long long kQ = Q_HEADS * HEAD_DIM;
  constexpr long long kK = KV_HEADS * HEAD_DIM;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % LANES;
  const int group = thread / LANES % GROUPS;
  const long long token = static_cast<long long>(blockIdx.x) * TOKENS + thread / (LANES * GROUPS);
  if (token >= tokens) return;
  const auto place = [&](int head) {
    const bool is_q = head < Q_HEADS;
    return token * (is_q ? kQ : kK) + (is_q ? head : head - Q_HEADS) * HEAD_DIM;
  };
  const auto from = [&](int head) { return (head < Q_HEADS ? q : k) + place(head); };
  const auto open = [&] {
    return [&](int head) -> HeadTargets<T> {
      return {(head < Q_HEADS ? q_out : k_out) + place(head), nullptr};
    };
  };
  const T* const no_weight = nullptr;
  MoveHeads<Shape, Q_HEADS, KV_HEADS, 0, GROUPS, UNROLL, false>(
      from, open, true, positions + token, rotation, no_weight, no_weight, 0.0f, group, lane);
}

template <typename T, typename INDEX, int Q_HEADS, int KV_HEADS, int HEAD_DIM, int ROTARY_DIM,
          Layout LAYOUT, Rotation ROTATION>
__global__ void rope_reference(T* q_out, T* k_out, const T* q, const T* k, const INDEX* positions,
                               const float* rotation, long long tokens) {
  using Shape = HeadShape<LAYOUT, ROTATION, HEAD_DIM, ROTARY_DIM, 1, 1>;
  constexpr int kHeads = Q_HEADS + KV_HEADS;
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= tokens * kHeads) return;
  const long long token = at / kHeads;
  const int head = static_cast<int>(at % kHeads);
  const bool is_q = head < Q_HEADS;
  const int heads = is_q ? Q_HEADS : KV_HEADS;
  const long long begin = (token * heads + (is_q ? head : head - Q_HEADS)) * HEAD_DIM;
  const T* const from = (is_q ? q : k) + begin;
  T* const to = (is_q ? q_out : k_out) + begin;
  for (int d = 0; d < HEAD_DIM; ++d) {
    const double result = ReferenceElement<Shape, LAYOUT == Layout::interleaved, T>(
        from, nullptr, 1.0, rotation, positions[token], d);
    to[d] = static_cast<T>(static_cast<float>(result));
  }
}
