// c = a * b for row-major a (m x K), b (K x N), c (m x N) of 16-bit types on tensor cores (mma.sync),
// accumulated in float.
//
// A block computes a BM x BN tile of c. Strips of a and b, BK wide along k, pass through a ring of
// STAGES in shared memory, filled with cp.async while the tensor cores work on the oldest. Fragments
// are loaded one instruction step ahead, across stages too.
//
// No header is included: parsing cuda_fp16.h would take longer than compiling this file. The types
// below only name the format of the bits.
struct __half;
struct __nv_bfloat16;

template <typename T>
struct Format;

template <>
struct Format<__half> {
  __device__ static float ToFloat(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  __device__ static unsigned short FromFloat(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
  __device__ static unsigned Pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
  }
  // sums += a (16 x 16) * b (16 x 8)
  __device__ static void MultiplyAdd(float (&sums)[4], const unsigned (&a)[4], unsigned b0,
                                     unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

template <>
struct Format<__nv_bfloat16> {
  __device__ static float ToFloat(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
  }
  __device__ static unsigned short FromFloat(float value) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
  __device__ static unsigned Pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
  }
  __device__ static void MultiplyAdd(float (&sums)[4], const unsigned (&a)[4], unsigned b0,
                                     unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

// A tile of 16-bit elements in shared memory, WIDTH to a row. Its unit is a chunk of 8 elements, which
// are 16 bytes; chunks of a row are permuted so that 8 rows of one column of chunks, which is what
// ldmatrix reads at once, lie in different banks.
template <int WIDTH>
struct Tile {
  static constexpr int kChunks = WIDTH / 8;
  static constexpr unsigned kRowBytes = WIDTH * 2;
  // Chunk c of a row stands at c ^ Mix(row).
  __device__ static int Mix(int row) { return WIDTH >= 64 ? row & 7 : row / 2 & 3; }
  __device__ static unsigned Offset(int row, int chunk) {
    return static_cast<unsigned>(row) * kRowBytes + static_cast<unsigned>(chunk ^ Mix(row)) * 16;
  }
};

__device__ inline void LoadFragments(unsigned (&to)[4], unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared)
               : "memory");
}

__device__ inline void LoadFragmentsTransposed(unsigned (&to)[4], unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared)
               : "memory");
}

// One chunk from `from`, of which the first `inside` elements are there; zeros for the rest. With
// VEC = 8 a chunk is inside or outside as a whole, and aligned.
template <int VEC>
__device__ inline void StageChunk(unsigned shared, const unsigned short* from, int inside) {
  if constexpr (VEC == 8) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                 "r"(inside > 0 ? 16 : 0)
                 : "memory");
  } else {
    unsigned words[4] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < inside) words[i / 2] |= static_cast<unsigned>(from[i]) << (i % 2 * 16);
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  }
}

template <typename T, int N, int K, int BM, int BN, int BK, int STAGES, int WARPS, int VEC>
__global__ void __launch_bounds__(WARPS * 32)
    matmul_mma(T* c_typed, const T* a_typed, const T* b_typed, long long m) {
  auto* const c = reinterpret_cast<unsigned short*>(c_typed);
  const auto* const a = reinterpret_cast<const unsigned short*>(a_typed);
  const auto* const b = reinterpret_cast<const unsigned short*>(b_typed);
  constexpr int kThreads = WARPS * 32;
  constexpr int kWarpsM = WARPS == 8 && BM > BN ? 4 : 2;
  constexpr int kWarpsN = WARPS / kWarpsM;
  constexpr int kWarpM = BM / kWarpsM;  // a warp's part of the tile
  constexpr int kWarpN = BN / kWarpsN;
  constexpr int kPiecesM = kWarpM / 16;  // products of one instruction, 16 x 8
  constexpr int kPiecesN = kWarpN / 8;
  constexpr int kSteps = (K + BK - 1) / BK;
  constexpr unsigned kBytesA = BM * BK * 2;
  constexpr unsigned kBytesStage = kBytesA + BK * BN * 2;
  using TileA = Tile<BK>;
  using TileB = Tile<BN>;

  extern __shared__ __align__(128) unsigned char memory[];
  const auto ring = static_cast<unsigned>(__cvta_generic_to_shared(memory));
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp_m = thread / 32 / kWarpsN * kWarpM;
  const int warp_n = thread / 32 % kWarpsN * kWarpN;

  // Blocks that run together share strips: 8 rows of tiles are walked column by column.
  constexpr long long kTilesN = (N + BN - 1) / BN;
  constexpr int kGroup = 8;
  const long long tiles_m = (m + BM - 1) / BM;
  const long long group = blockIdx.x / (kGroup * kTilesN) * kGroup;
  const long long in_group = blockIdx.x % (kGroup * kTilesN);
  const long long rows = tiles_m - group < kGroup ? tiles_m - group : kGroup;
  const long long first_row = (group + in_group % rows) * BM;
  const int first_col = static_cast<int>(in_group / rows) * BN;

  // Every thread copies one chunk of each of several rows, kRowsA (kRowsB) apart.
  constexpr int kRowsA = kThreads / TileA::kChunks;
  constexpr int kRowsB = kThreads / TileB::kChunks;
  const int row_a = thread / TileA::kChunks;
  const int chunk_a = thread % TileA::kChunks;
  const int row_b = thread / TileB::kChunks;
  const int chunk_b = thread % TileB::kChunks;
  const unsigned short* const from_a = a + (first_row + row_a) * K + chunk_a * 8;
  const unsigned short* const from_b = b + static_cast<long long>(row_b) * N + first_col + chunk_b * 8;
  // Without edges all offsets are constants of the compiler.
  constexpr bool kNoEdges = VEC == 8 && K % BK == 0 && N % BN == 0;
  const bool whole = kNoEdges && first_row + BM <= m;

  const auto stage = [&](unsigned slot, int step) {
    const unsigned to_a = slot + TileA::Offset(row_a, chunk_a);
    const unsigned short* const step_a = from_a + step * BK;
    const unsigned short* const step_b = from_b + static_cast<long long>(step) * BK * N;
    if (whole) {
#pragma unroll
      for (int i = 0; i < BM / kRowsA; ++i) {
        // Rows 8 apart are mixed alike.
        static_assert(kRowsA % 8 == 0, "");
        StageChunk<VEC>(to_a + i * kRowsA * TileA::kRowBytes, step_a + i * kRowsA * K, 8);
      }
#pragma unroll
      for (int i = 0; i < BK / kRowsB; ++i) {
        StageChunk<VEC>(slot + kBytesA + TileB::Offset(row_b + i * kRowsB, chunk_b),
                        step_b + static_cast<long long>(i) * kRowsB * N, 8);
      }
      return;
    }
    const int left_k = K - step * BK;
#pragma unroll
    for (int i = 0; i < BM / kRowsA; ++i) {
      const int inside = first_row + row_a + i * kRowsA < m ? left_k - chunk_a * 8 : 0;
      StageChunk<VEC>(to_a + i * kRowsA * TileA::kRowBytes,
                      inside > 0 ? step_a + static_cast<long long>(i) * kRowsA * K : a, inside);
    }
#pragma unroll
    for (int i = 0; i < BK / kRowsB; ++i) {
      const int inside = row_b + i * kRowsB < left_k ? N - first_col - chunk_b * 8 : 0;
      StageChunk<VEC>(slot + kBytesA + TileB::Offset(row_b + i * kRowsB, chunk_b),
                      inside > 0 ? step_b + static_cast<long long>(i) * kRowsB * N : b, inside);
    }
  };

  float sums[kPiecesM][kPiecesN][4] = {};
  unsigned part_a[2][kPiecesM][4];
  unsigned part_b[2][kPiecesN / 2][4];
  // A lane's address in either tile; chunks along k and along n have even numbers before `mixed`, so
  // adding is the same as xor.
  const int mixed_a = lane / 16 ^ TileA::Mix(lane % 16);
  const int mixed_b = lane / 16 ^ TileB::Mix(lane % 16);
  const unsigned lane_a = static_cast<unsigned>(warp_m + lane % 16) * TileA::kRowBytes;
  const unsigned lane_b = kBytesA + static_cast<unsigned>(lane % 16) * TileB::kRowBytes;
  const auto load = [&](int into, unsigned slot, int k) {
    const unsigned at_a = slot + lane_a + static_cast<unsigned>(mixed_a ^ k / 8) * 16;
#pragma unroll
    for (int i = 0; i < kPiecesM; ++i) {
      LoadFragments(part_a[into][i], at_a + i * 16 * TileA::kRowBytes);
    }
#pragma unroll
    for (int j = 0; j < kPiecesN / 2; ++j) {
      LoadFragmentsTransposed(part_b[into][j],
                              slot + lane_b + k * TileB::kRowBytes +
                                  static_cast<unsigned>(mixed_b ^ (warp_n / 8 + j * 2)) * 16);
    }
  };

#pragma unroll
  for (int step = 0; step < STAGES - 1; ++step) {
    if (step < kSteps) stage(ring + step * kBytesStage, step);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  constexpr unsigned kRingBytes = STAGES * kBytesStage;
  unsigned oldest = 0;
  unsigned empty = kRingBytes - kBytesStage;
  const auto next_stage_is_there = [] {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
  };
  next_stage_is_there();
  load(0, ring, 0);
  for (int step = 0; step < kSteps; ++step) {
    if (step + STAGES - 1 < kSteps) stage(ring + empty, step + STAGES - 1);
    asm volatile("cp.async.commit_group;" ::: "memory");
    const unsigned following = oldest + kBytesStage == kRingBytes ? 0 : oldest + kBytesStage;
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      const int now = k / 16 % 2;
      if (k + 16 < BK) {
        load(1 - now, ring + oldest, k + 16);
      } else {
        // Here every warp has read all of the oldest stage, which may be overwritten from now on. In
        // the last step what is loaded is not used.
        next_stage_is_there();
        load(1 - now, ring + following, 0);
      }
#pragma unroll
      for (int i = 0; i < kPiecesM; ++i) {
#pragma unroll
        for (int j = 0; j < kPiecesN; ++j) {
          Format<T>::MultiplyAdd(sums[i][j], part_a[now][i], part_b[now][j / 2][j % 2 * 2],
                                 part_b[now][j / 2][j % 2 * 2 + 1]);
        }
      }
    }
    oldest = following;
    empty = empty + kBytesStage == kRingBytes ? 0 : empty + kBytesStage;
  }

#pragma unroll
  for (int i = 0; i < kPiecesM; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const long long row = first_row + warp_m + i * 16 + half * 8 + lane / 4;
      if (row >= m) continue;
#pragma unroll
      for (int j = 0; j < kPiecesN; ++j) {
        const int col = first_col + warp_n + j * 8 + lane % 4 * 2;
        const float low = sums[i][j][half * 2];
        const float high = sums[i][j][half * 2 + 1];
        unsigned short* const to = c + row * N + col;
        if constexpr (VEC == 8) {
          if (col < N) *reinterpret_cast<unsigned*>(to) = Format<T>::Pair(low, high);
        } else {
          if (col < N) to[0] = Format<T>::FromFloat(low);
          if (col + 1 < N) to[1] = Format<T>::FromFloat(high);
        }
      }
    }
  }
}

// One thread an element, in double precision: shares nothing with the kernel above but the formats.
template <typename T, int N, int K>
__global__ void matmul_reference(T* c_typed, const T* a_typed, const T* b_typed, long long m) {
  auto* const c = reinterpret_cast<unsigned short*>(c_typed);
  const auto* const a = reinterpret_cast<const unsigned short*>(a_typed);
  const auto* const b = reinterpret_cast<const unsigned short*>(b_typed);
  const long long at = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (at >= m * N) return;
  const long long row = at / N;
  const long long col = at % N;
  double sum = 0;
  for (int k = 0; k < K; ++k) {
    sum += static_cast<double>(Format<T>::ToFloat(a[row * K + k])) *
           Format<T>::ToFloat(b[static_cast<long long>(k) * N + col]);
  }
  c[at] = Format<T>::FromFloat(static_cast<float>(sum));
}
