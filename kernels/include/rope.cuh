// Rotary position embedding of the query and key heads of one token, with RMS normalisation of each
// head before it and a copy into a KV cache after it where wanted. Arithmetic is in float.
//
// A rotation turns pairs of elements: x' = x cos - y sin, y' = x sin + y cos. Pair i of a head is
// (i, i + rotary_dim / 2) in the layout `halves` (Llama, NeoX) and (2 i, 2 i + 1) in `interleaved`
// (GPT-J). Elements from rotary_dim on stay as they are.
//
// LANES threads share a head; a thread takes two accesses of VEC elements that hold whole pairs, so
// neither layout exchanges anything between threads.
#pragma once
#include "merge.cuh"
#include "pack.cuh"

enum class Layout { halves, interleaved };
enum class Rotation {
  table,     // cosines and sines of every position: rows of rotary_dim / 2 and rotary_dim / 2
  computed,  // from one row of rotary_dim / 2 frequencies
};

template <Layout LAYOUT, Rotation ROTATION, int HEAD_DIM, int ROTARY_DIM, int VEC, int LANES>
struct HeadShape {
  static constexpr int kDim = HEAD_DIM;
  static constexpr int kRotary = ROTARY_DIM;
  static constexpr int kHalf = ROTARY_DIM / 2;
  static constexpr int kVec = VEC;
  static constexpr int kLanes = LANES;
  static constexpr Rotation kRotation = ROTATION;
  // Whether both elements of a pair are in the same access.
  static constexpr bool kInAccess = LAYOUT == Layout::interleaved && VEC > 1;
  static constexpr int kTurned = kHalf / VEC;                 // double accesses of all lanes
  static constexpr int kKept = (HEAD_DIM - ROTARY_DIM) / VEC;  // accesses beyond the rotary part
  static constexpr int kTurnedPerLane = (kTurned + LANES - 1) / LANES;
  static constexpr int kKeptPerLane = (kKept + LANES - 1) / LANES;

  // Where the two accesses of a double access begin.
  __device__ static int First(int at) {
    return LAYOUT == Layout::interleaved && VEC == 1 ? 2 * at : at * VEC;
  }
  __device__ static int Second(int at) {
    return LAYOUT == Layout::interleaved && VEC == 1 ? 2 * at + 1 : kHalf + at * VEC;
  }
};

// Cosines and sines of a thread's pairs, the same for all heads of a token.
template <typename Shape>
struct Turn {
  float cosine[Shape::kTurnedPerLane][Shape::kVec];
  float sine[Shape::kTurnedPerLane][Shape::kVec];

  __device__ void Load(const float* rotation, long long position, int lane) {
    // Pairs of an access lie in one run; the second access of a kInAccess layout has its own.
    constexpr int kRuns = Shape::kInAccess ? 2 : 1;
    constexpr int kRun = Shape::kVec / kRuns;
    using Run = Pack<float, kRun>;
#pragma unroll
    for (int i = 0; i < Shape::kTurnedPerLane; ++i) {
      const int at = lane + i * Shape::kLanes;
      if (at >= Shape::kTurned) continue;
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        const int pair = at * kRun + run * (Shape::kHalf / 2);
        if constexpr (Shape::kRotation == Rotation::table) {
          const float* const row = rotation + position * Shape::kRotary + pair;
          const Run cosines = LoadPack<kRun>(row);
          const Run sines = LoadPack<kRun>(row + Shape::kHalf);
#pragma unroll
          for (int j = 0; j < kRun; ++j) {
            cosine[i][run * kRun + j] = cosines.values[j];
            sine[i][run * kRun + j] = sines.values[j];
          }
        } else {
          const Run frequencies = LoadPack<kRun>(rotation + pair);
#pragma unroll
          for (int j = 0; j < kRun; ++j) {
            // The angle is this product in single precision, as models are trained with it.
            const float angle = __fmul_rn(static_cast<float>(position), frequencies.values[j]);
            sincosf(angle, &sine[i][run * kRun + j], &cosine[i][run * kRun + j]);
          }
        }
      }
    }
  }
};

// A thread's part of one head.
template <typename T, typename Shape>
struct HeadPart {
  using Access = Pack<T, Shape::kVec>;
  Access first[Shape::kTurnedPerLane];
  Access second[Shape::kTurnedPerLane];
  Access kept[Shape::kKeptPerLane > 0 ? Shape::kKeptPerLane : 1];

  // Calls f(access, element where it begins) for every access of this lane.
  template <typename F>
  __device__ void ForEach(int lane, F f) {
#pragma unroll
    for (int i = 0; i < Shape::kTurnedPerLane; ++i) {
      const int at = lane + i * Shape::kLanes;
      if (at >= Shape::kTurned) continue;
      f(first[i], Shape::First(at));
      f(second[i], Shape::Second(at));
    }
#pragma unroll
    for (int i = 0; i < Shape::kKeptPerLane; ++i) {
      const int at = lane + i * Shape::kLanes;
      if (at < Shape::kKept) f(kept[i], Shape::kRotary + at * Shape::kVec);
    }
  }

  __device__ void Load(const T* head, int lane) {
    ForEach(lane, [&](Access& access, int begin) {
      access = LoadPack<Shape::kVec>(head + begin);
    });
  }
  __device__ void Store(T* head, int lane) {
    ForEach(lane, [&](Access& access, int begin) {
      StorePack(head + begin, access);
    });
  }
  __device__ float SumOfSquares(int lane) {
    float sum = 0.0f;
    ForEach(lane, [&](Access& access, int) {
#pragma unroll
      for (int j = 0; j < Shape::kVec; ++j) {
        const float v = static_cast<float>(access.values[j]);
        sum += v * v;
      }
    });
    return sum;
  }

  // Weights; without any, ones. Without a branch, before which loads would wait: then what is at
  // `instead` is read and forgotten.
  __device__ void LoadOrOnes(const T* weight, const T* instead, int lane) {
    const bool there = weight != nullptr;
    Load(there ? weight : instead, lane);
    ForEach(lane, [&](Access& access, int) {
#pragma unroll
      for (int j = 0; j < Shape::kVec; ++j) {
        access.values[j] = there ? access.values[j] : static_cast<T>(1.0f);
      }
    });
  }

  // The rotation of each element, times `scale` and its weight with NORM: rounded once.
  template <bool NORM>
  __device__ void ScaleAndTurn(float scale, const HeadPart& weight, const Turn<Shape>& turn) {
    constexpr int kVec = Shape::kVec;
    const auto scaled = [scale](const Access& of, const Access& its_weight, float(&to)[kVec]) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        to[j] = static_cast<float>(of.values[j]);
        if constexpr (NORM) to[j] *= scale * static_cast<float>(its_weight.values[j]);
      }
    };
#pragma unroll
    for (int i = 0; i < Shape::kTurnedPerLane; ++i) {
      float low[kVec];
      float high[kVec];
      scaled(first[i], weight.first[i], low);
      scaled(second[i], weight.second[i], high);
#pragma unroll
      for (int pair = 0; pair < kVec; ++pair) {
        // Where the pair's elements are.
        const int place = 2 * pair % kVec;
        float& x = Shape::kInAccess ? (pair < kVec / 2 ? low[place] : high[place]) : low[pair];
        float& y = Shape::kInAccess ? (pair < kVec / 2 ? low[place + 1] : high[place + 1]) : high[pair];
        const float a = x;
        const float b = y;
        x = a * turn.cosine[i][pair] - b * turn.sine[i][pair];
        y = a * turn.sine[i][pair] + b * turn.cosine[i][pair];
      }
      first[i] = ToPack<T>(low);
      second[i] = ToPack<T>(high);
    }
    if constexpr (NORM) {
#pragma unroll
      for (int i = 0; i < Shape::kKeptPerLane; ++i) {
        float values[kVec];
        scaled(kept[i], weight.kept[i], values);
        kept[i] = ToPack<T>(values);
      }
    }
  }
};

// Where a head goes to.
template <typename T>
struct HeadTargets {
  T* to;       // null: nowhere
  T* also_to;  // null: nowhere
};

// Moves the heads of a token: first Q_HEADS of queries, then KV_HEADS of keys, which are turned and with
// NORM normalised (null weights stand for ones), then VALUE_HEADS as they are. GROUPS groups of threads
// take one after the other, with UNROLL of them in flight. `from(head)` says where a head is, and
// `open()` gives the function that says where it goes to; it is called when loads are under way. With
// NORM all threads of a warp come here: those without a token have addresses of another's and `there`
// false. Loads have no conditions, because the compiler would have a thread wait at each.
template <typename Shape, int Q_HEADS, int KV_HEADS, int VALUE_HEADS, int GROUPS, int UNROLL, bool NORM,
          typename T, typename INDEX, typename From, typename Open>
__device__ void MoveHeads(const From& from, const Open& open, bool there, const INDEX* position,
                          const float* rotation, const T* q_weight, const T* k_weight, float eps,
                          int group, int lane) {
  using Part = HeadPart<T, Shape>;
  constexpr int kHeads = Q_HEADS + KV_HEADS + VALUE_HEADS;
  constexpr int kPerGroup = (kHeads + GROUPS - 1) / GROUPS;
  constexpr int kAtOnce = UNROLL < kPerGroup ? UNROLL : kPerGroup;
  const auto load = [&](Part& part, int head) { part.Load(from(head < kHeads ? head : 0), lane); };
  Part parts[kAtOnce];
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) load(parts[i], group + i * GROUPS);
  // After the heads, which need not wait for the position.
  const long long at = static_cast<long long>(*position);
  const auto targets_of = open();
  Part q_weights;
  Part k_weights;
  if constexpr (NORM) {
    q_weights.LoadOrOnes(q_weight, from(0), lane);
    k_weights.LoadOrOnes(k_weight, from(0), lane);
  }
  Turn<Shape> turn;
  turn.Load(rotation, at, lane);
  // Unrolled, so that for most of its iterations the compiler knows what kind of head it is.
#pragma unroll
  for (int i = 0; i < kPerGroup; ++i) {
    const int head = group + i * GROUPS;
    Part& part = parts[i % kAtOnce];
    float scale = 1.0f;
    if constexpr (NORM) {
      if (i * GROUPS < Q_HEADS + KV_HEADS) {
        const float sum = MergeLanes<Shape::kLanes>(part.SumOfSquares(lane), Sum());
        scale = rsqrtf(sum * (1.0f / Shape::kDim) + eps);
      }
    }
    if (head < Q_HEADS) {
      part.template ScaleAndTurn<NORM>(scale, q_weights, turn);
    } else if (head < Q_HEADS + KV_HEADS) {
      part.template ScaleAndTurn<NORM>(scale, k_weights, turn);
    }
    if (there && head < kHeads) {
      const HeadTargets<T> targets = targets_of(head);
      if (targets.to != nullptr) part.Store(targets.to, lane);
      if (targets.also_to != nullptr) part.Store(targets.also_to, lane);
    }
    if (i + kAtOnce < kPerGroup) load(part, head + kAtOnce * GROUPS);
  }
}

// What the references compute a head by: in double precision, element by element.
template <typename Shape, typename T>
__device__ double ReferenceScale(const T* head, float eps) {
  double sum = 0.0;
  for (int i = 0; i < Shape::kDim; ++i) {
    const double v = static_cast<float>(head[i]);
    sum += v * v;
  }
  return 1.0 / sqrt(sum / Shape::kDim + eps);
}

template <typename Shape, bool INTERLEAVED, typename T>
__device__ double ReferenceElement(const T* head, const T* weight, double scale,
                                   const float* rotation, long long position, int d) {
  const auto scaled = [&](int i) {
    const double its_weight = weight != nullptr ? static_cast<float>(weight[i]) : 1.0;
    return static_cast<float>(head[i]) * scale * its_weight;
  };
  if (d >= Shape::kRotary) return scaled(d);
  const int pair = INTERLEAVED ? d / 2 : d % Shape::kHalf;
  const bool is_y = INTERLEAVED ? d % 2 == 1 : d >= Shape::kHalf;
  const int distance = INTERLEAVED ? 1 : Shape::kHalf;
  double cosine, sine;
  if (Shape::kRotation == Rotation::table) {
    cosine = rotation[position * Shape::kRotary + pair];
    sine = rotation[position * Shape::kRotary + Shape::kHalf + pair];
  } else {
    const double angle = __fmul_rn(static_cast<float>(position), rotation[pair]);
    cosine = cos(angle);
    sine = sin(angle);
  }
  return is_y ? scaled(d - distance) * sine + scaled(d) * cosine
              : scaled(d) * cosine - scaled(d + distance) * sine;
}
