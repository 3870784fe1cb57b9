// What happens between the projections and the attention of a layer, for each token: queries and
// keys are normalised head by head (NORM) and rotated, keys and values go to their slot of the KV
// cache.
//
// A block takes TOKENS tokens; GROUPS groups of LANES threads share a token's heads, and load the
// cosines and sines of their pairs once for all of them. See rope.cuh.
#include "rope.cuh"

template <typename T, typename INDEX, int Q_HEADS, int KV_HEADS, int HEAD_DIM, int ROTARY_DIM,
          Layout LAYOUT, Rotation ROTATION, bool NORM, bool PACKED, int VEC, int LANES, int GROUPS,
          int TOKENS, int UNROLL>
__global__ void __launch_bounds__(LANES* GROUPS* TOKENS)
    rope_norm_append(T* q_out, T* k_out, T* k_cache, T* v_cache, const T* q, const T* k, const T* v,
                     const INDEX* positions, const INDEX* slots, const float* rotation,
                     const T* q_weight, const T* k_weight, float eps, long long tokens,
                     long long cache_slots) {
  using Shape = HeadShape<LAYOUT, ROTATION, HEAD_DIM, ROTARY_DIM, VEC, LANES>;
  constexpr long long kQ = Q_HEADS * HEAD_DIM;
  constexpr long long kKv = KV_HEADS * HEAD_DIM;
  constexpr long long kRowQ = PACKED ? kQ + 2 * kKv : kQ;
  constexpr long long kRowKv = PACKED ? kQ + 2 * kKv : kKv;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % LANES;
  const int group = thread / LANES % GROUPS;
  const long long own = static_cast<long long>(blockIdx.x) * TOKENS + thread / (LANES * GROUPS);
  // Threads without a token stay, because shuffles want whole warps.
  const bool there = own < tokens;
  const long long token = there ? own : 0;
  const auto from = [&](int head) {
    const bool is_q = head < Q_HEADS;
    const bool is_k = !is_q && head < Q_HEADS + KV_HEADS;
    const int in_kind = is_q ? head : head - Q_HEADS - (is_k ? 0 : KV_HEADS);
    return (is_q ? q : is_k ? k : v) + token * (is_q ? kRowQ : kRowKv) + in_kind * HEAD_DIM;
  };
  const auto open = [&] {
    const long long slot = static_cast<long long>(slots[token]);
    const bool appended = slot >= 0 && slot < cache_slots;
    return [=](int head) -> HeadTargets<T> {
      if (head < Q_HEADS) return {q_out + token * kQ + head * HEAD_DIM, nullptr};
      const bool is_k = head < Q_HEADS + KV_HEADS;
      const int at = (head - Q_HEADS - (is_k ? 0 : KV_HEADS)) * HEAD_DIM;
      return {appended ? (is_k ? k_cache : v_cache) + slot * kKv + at : nullptr,
              is_k && k_out != nullptr ? k_out + token * kKv + at : nullptr};
    };
  };
  MoveHeads<Shape, Q_HEADS, KV_HEADS, KV_HEADS, GROUPS, UNROLL, NORM>(
      from, open, there, positions + token, rotation, q_weight, k_weight, eps, group, lane);
}

template <typename T, typename INDEX, int Q_HEADS, int KV_HEADS, int HEAD_DIM, int ROTARY_DIM,
          Layout LAYOUT, Rotation ROTATION, bool NORM, bool PACKED>
__global__ void rope_norm_append_reference(T* q_out, T* k_out, T* k_cache, T* v_cache, const T* q,
                                           const T* k, const T* v, const INDEX* positions,
                                           const INDEX* slots, const float* rotation,
                                           const T* q_weight, const T* k_weight, float eps,
                                           long long tokens, long long cache_slots) {
  using Shape = HeadShape<LAYOUT, ROTATION, HEAD_DIM, ROTARY_DIM, 1, 1>;
  constexpr int kHeads = Q_HEADS + KV_HEADS;
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= tokens * kHeads) return;
  const long long token = at / kHeads;
  const int head = static_cast<int>(at % kHeads);
  const int kv_head = head - Q_HEADS;
  const long long slot = slots[token];
  const bool appended = slot >= 0 && slot < cache_slots;
  const long long row_kv = PACKED ? Q_HEADS + 2 * KV_HEADS : KV_HEADS;
  const long long row_q = PACKED ? Q_HEADS + 2 * KV_HEADS : Q_HEADS;
  const T* const from = kv_head < 0 ? q + (token * row_q + head) * HEAD_DIM
                                    : k + (token * row_kv + kv_head) * HEAD_DIM;
  const T* const weight = !NORM ? nullptr : kv_head < 0 ? q_weight : k_weight;
  const double scale = NORM ? ReferenceScale<Shape>(from, eps) : 1.0;
  for (int d = 0; d < HEAD_DIM; ++d) {
    const double exact = ReferenceElement<Shape, LAYOUT == Layout::interleaved, T>(
        from, weight, scale, rotation, positions[token], d);
    const T result = static_cast<T>(static_cast<float>(exact));
    if (kv_head < 0) {
      q_out[(token * Q_HEADS + head) * HEAD_DIM + d] = result;
      continue;
    }
    if (k_out != nullptr) k_out[(token * KV_HEADS + kv_head) * HEAD_DIM + d] = result;
    if (!appended) continue;
    k_cache[(slot * KV_HEADS + kv_head) * HEAD_DIM + d] = result;
    v_cache[(slot * KV_HEADS + kv_head) * HEAD_DIM + d] =
        v[(token * row_kv + kv_head) * HEAD_DIM + d];
  }
}
