// A tile of a matrix, transposed on its way through shared memory.
//
// A thread reads pieces of WRITE rows x READ columns, transposes them in registers and puts every
// column of a piece into shared memory as one access of WRITE elements. Rows of dst are read from
// there as they are written: so device and shared memory both see whole accesses only, on both sides.
// The accesses of a line of 128 bytes of shared memory are permuted (exclusive or), which keeps those
// that are made at once in different banks.
#pragma once

#include "pack.cuh"

// COUNT elements of a row; of BYTES, the words that hold them.
template <typename WORD, int COUNT, bool BYTES>
struct PieceRow {
  using Type = Pack<WORD, COUNT>;
};
template <typename WORD, int COUNT>
struct PieceRow<WORD, COUNT, true> {
  using Type = Pack<unsigned int, COUNT / 4>;
};

// cols[j].values[i] = rows[i].values[j].
template <typename WORD, int ROWS, int COLS>
__device__ inline void TransposePiece(const Pack<WORD, COLS> (&rows)[ROWS], Pack<WORD, ROWS> (&cols)[COLS]) {
#pragma unroll
  for (int j = 0; j < COLS; ++j) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) cols[j].values[i] = rows[i].values[j];
  }
}
// The same of bytes, four in a word: compilers would take them out one by one.
template <int ROWS, int COLS>
__device__ inline void TransposePiece(const Pack<unsigned int, COLS> (&rows)[ROWS],
                                      Pack<unsigned int, ROWS / 4> (&cols)[4 * COLS]) {
#pragma unroll
  for (int j = 0; j < COLS; ++j) {
#pragma unroll
    for (int i = 0; i < ROWS / 4; ++i) {
      const unsigned int a = rows[4 * i].values[j], b = rows[4 * i + 1].values[j];
      const unsigned int c = rows[4 * i + 2].values[j], d = rows[4 * i + 3].values[j];
      // Selectors name bytes, the lowest first; 4 to 7 are those of the second word.
      const unsigned int ab01 = __byte_perm(a, b, 0x5140), ab23 = __byte_perm(a, b, 0x7362);
      const unsigned int cd01 = __byte_perm(c, d, 0x5140), cd23 = __byte_perm(c, d, 0x7362);
      cols[4 * j].values[i] = __byte_perm(ab01, cd01, 0x5410);
      cols[4 * j + 1].values[i] = __byte_perm(ab01, cd01, 0x7632);
      cols[4 * j + 2].values[i] = __byte_perm(ab23, cd23, 0x5410);
      cols[4 * j + 3].values[i] = __byte_perm(ab23, cd23, 0x7632);
    }
  }
}

// WORD: unsigned type of the elements' size. All sizes are powers of two, so that places are sums of one
// that depends on the thread and one that the compiler knows.
template <typename WORD, int TILE_ROWS, int TILE_COLS, int THREADS, int READ, int WRITE>
struct TransposeTile {
  static constexpr bool kBytes = sizeof(WORD) == 1 && READ % 4 == 0 && WRITE % 4 == 0;
  using In = typename PieceRow<WORD, READ, kBytes>::Type;
  using Out = typename PieceRow<WORD, WRITE, kBytes>::Type;
  static constexpr int kRowPieces = TILE_ROWS / WRITE;
  static constexpr int kColPieces = TILE_COLS / READ;
  static constexpr int kPieces = kRowPieces * kColPieces / THREADS;  // of a thread
  static constexpr int kOuts = TILE_ROWS * TILE_COLS / WRITE;
  static_assert(kPieces * THREADS == kRowPieces * kColPieces, "threads have equal shares");

  // Where piece `row_piece` of column col_piece * READ + j lies in shared memory. Neighbouring threads
  // have neighbouring col_piece when they store and neighbouring row_piece when they load.
  __device__ static constexpr int Place(int j, int col_piece, int row_piece) {
    constexpr int kSize = static_cast<int>(sizeof(Out));
    constexpr int kUnit = kSize < 4 ? 4 / kSize : 1;  // accesses in a bank's word
    constexpr int kRowBytes = kRowPieces * kSize;
    constexpr int kRowsOfLine = kRowBytes < 128 ? 128 / kRowBytes : 1;
    constexpr int kInLine = (kRowBytes < 128 ? kRowPieces : 128 / kSize) / kUnit;
    constexpr int kSwizzles = kInLine > 1 ? kInLine : 1;
    return (j * kColPieces + col_piece) * kRowPieces +
           (row_piece ^ (col_piece / kRowsOfLine % kSwizzles * kUnit));
  }
  // Of the `at`-th piece when it is stored, and of the `at`-th access when it is loaded. Both are linear in
  // the bits of `at`: f(a + b) is f(a) ^ f(b) where a and b have none in common.
  __device__ static constexpr int StorePlace(int j, int at) {
    return Place(j, at % kColPieces, at / kColPieces);
  }
  __device__ static constexpr int LoadPlace(int at) {
    return Place(at / kRowPieces / kColPieces, at / kRowPieces % kColPieces, at % kRowPieces);
  }
  __device__ static constexpr int StoreRow(int at) { return at / kColPieces * WRITE; }
  __device__ static constexpr int StoreCol(int at) { return at % kColPieces * READ; }
  __device__ static constexpr int LoadRow(int at) { return at % kRowPieces * WRITE; }
  __device__ static constexpr int LoadCol(int at) {
    return at / kRowPieces % kColPieces * READ + at / kRowPieces / kColPieces;
  }

  // dst[c][r] = src[r][c] for r < rows, c < cols, a tile at most. Rows of src lie src_stride elements
  // apart, those of dst dst_stride. `rows` is a multiple of WRITE, `cols` of READ, and so are
  // strides and pointers.
  __device__ static void Move(Out* tile, WORD* dst, long long dst_stride, const WORD* src,
                              long long src_stride, int rows, int cols) {
    const int thread = static_cast<int>(threadIdx.x);
    const long long src_bytes = src_stride * static_cast<int>(sizeof(WORD));
    const long long dst_bytes = dst_stride * static_cast<int>(sizeof(WORD));

    In pieces[kPieces][WRITE];
    const char* const from =
        reinterpret_cast<const char*>(src + StoreCol(thread)) + StoreRow(thread) * src_bytes;
    const int src_rows = rows - StoreRow(thread);  // below and beside this thread's first element
    const int src_cols = cols - StoreCol(thread);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int row = StoreRow(p * THREADS);
      const int col = StoreCol(p * THREADS);
      if (row < src_rows && col < src_cols) {
#pragma unroll
        for (int i = 0; i < WRITE; ++i) {
          const char* const at = from + (row + i) * src_bytes + col * static_cast<int>(sizeof(WORD));
          pieces[p][i] = Load<kCachePlain>(reinterpret_cast<const In*>(at));
        }
      }
    }
    const int store = StorePlace(0, thread);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      Out columns[READ];
      TransposePiece(pieces[p], columns);
#pragma unroll
      for (int j = 0; j < READ; ++j) tile[store ^ StorePlace(j, p * THREADS)] = columns[j];
    }
    __syncthreads();
    char* const to = reinterpret_cast<char*>(dst + LoadRow(thread)) + LoadCol(thread) * dst_bytes;
    const int dst_rows = rows - LoadRow(thread);
    const int dst_cols = cols - LoadCol(thread);
    const int load = LoadPlace(thread);
#pragma unroll
    for (int o = 0; o < kOuts / THREADS; ++o) {
      const int row = LoadRow(o * THREADS);
      const int col = LoadCol(o * THREADS);
      if (row < dst_rows && col < dst_cols) {
        char* const at = to + col * dst_bytes + row * static_cast<int>(sizeof(WORD));
        Store<kCachePlain>(reinterpret_cast<Out*>(at), tile[load ^ LoadPlace(o * THREADS)]);
      }
    }
  }
};

// The tile that the `at`-th block of a matrix takes. GROUP rows of tiles are walked together, down their
// columns of tiles: blocks that run at the same time then write neighbouring pieces of the rows of dst.
template <int GROUP>
__device__ inline void TileOfBlock(unsigned at, unsigned row_tiles, unsigned col_tiles, unsigned& row_tile,
                                   unsigned& col_tile) {
  const unsigned group = at / (GROUP * col_tiles);
  const unsigned in_group = at - group * (GROUP * col_tiles);
  const unsigned left = row_tiles - group * GROUP;
  const unsigned height = left < GROUP ? left : GROUP;
  col_tile = in_group / height;
  row_tile = group * GROUP + in_group - col_tile * height;
}
