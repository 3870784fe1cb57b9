// dst[b][c][r] = src[b][r][c] for `batch` dense row-major matrices.
//
// A block carries one TILE_ROWS x TILE_COLS tile of a src through shared memory, see
// transpose_tile.cuh.
#include "transpose_tile.cuh"

template <typename T, int TILE_ROWS, int TILE_COLS, int THREADS, int VEC_READ, int VEC_WRITE, int GROUP>
__global__ void __launch_bounds__(THREADS)
    transpose(T* dst, const T* src, long long batch, long long rows, long long cols) {
  using Tile = TransposeTile<Word<sizeof(T)>, TILE_ROWS, TILE_COLS, THREADS, VEC_READ, VEC_WRITE>;
  __shared__ typename Tile::Out tile[Tile::kOuts];

  const unsigned row_tiles = static_cast<unsigned>((rows + TILE_ROWS - 1) / TILE_ROWS);
  const unsigned col_tiles = static_cast<unsigned>((cols + TILE_COLS - 1) / TILE_COLS);
  const unsigned matrix = blockIdx.x / (row_tiles * col_tiles);
  unsigned row_tile, col_tile;
  TileOfBlock<GROUP>(blockIdx.x - matrix * (row_tiles * col_tiles), row_tiles, col_tiles, row_tile, col_tile);
  const long long row = static_cast<long long>(row_tile) * TILE_ROWS;
  const long long col = static_cast<long long>(col_tile) * TILE_COLS;
  const long long first = matrix * rows * cols;
  Tile::Move(tile, reinterpret_cast<Word<sizeof(T)>*>(dst) + first + col * rows + row, rows,
             reinterpret_cast<const Word<sizeof(T)>*>(src) + first + row * cols + col, cols,
             static_cast<int>(rows - row < TILE_ROWS ? rows - row : TILE_ROWS),
             static_cast<int>(cols - col < TILE_COLS ? cols - col : TILE_COLS));
}

template <typename T>
__global__ void transpose_reference(T* dst, const T* src, long long batch, long long rows, long long cols) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= batch * rows * cols) return;
  const long long matrix = i / (rows * cols);
  const long long c = i / rows % cols;
  dst[i] = src[(matrix * rows + i % rows) * cols + c];
}
