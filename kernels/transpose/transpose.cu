// dst[c][r] = src[r][c], both dense and row-major.
//
// A block moves one TILE_ROWS x TILE_COLS tile of src through shared memory, so that reads run
// along rows of src and writes along rows of dst.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

template <typename T, int TILE_ROWS, int TILE_COLS, int THREADS, int VEC, int PAD>
__global__ void __launch_bounds__(THREADS)
    transpose(T* dst, const T* src, long long rows, long long cols) {
  // PAD spreads a column of the tile over the banks of shared memory.
  __shared__ T tile[TILE_ROWS][TILE_COLS + PAD];
  using Access = Pack<T, VEC>;
  const long long col_tiles = (cols + TILE_COLS - 1) / TILE_COLS;
  const long long first_row = blockIdx.x / col_tiles * TILE_ROWS;
  const long long first_col = blockIdx.x % col_tiles * TILE_COLS;

  // rows and cols are multiples of VEC (a guard): an access lies inside or outside as a whole.
  constexpr int kReads = TILE_ROWS * TILE_COLS / VEC;
  Access packs[kReads / THREADS];
#pragma unroll
  for (int i = 0; i < kReads / THREADS; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * THREADS;
    const int row = at / (TILE_COLS / VEC);
    const int col = at % (TILE_COLS / VEC) * VEC;
    if (first_row + row < rows && first_col + col < cols) {
      packs[i] = *reinterpret_cast<const Access*>(src + (first_row + row) * cols + first_col + col);
    }
  }
#pragma unroll
  for (int i = 0; i < kReads / THREADS; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * THREADS;
    const int row = at / (TILE_COLS / VEC);
    const int col = at % (TILE_COLS / VEC) * VEC;
#pragma unroll
    for (int j = 0; j < VEC; ++j) tile[row][col + j] = packs[i].values[j];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kReads / THREADS; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * THREADS;
    const int col = at / (TILE_ROWS / VEC);
    const int row = at % (TILE_ROWS / VEC) * VEC;
    if (first_row + row < rows && first_col + col < cols) {
      Access pack;
#pragma unroll
      for (int j = 0; j < VEC; ++j) pack.values[j] = tile[row + j][col];
      *reinterpret_cast<Access*>(dst + (first_col + col) * rows + first_row + row) = pack;
    }
  }
}

template <typename T>
__global__ void transpose_reference(T* dst, const T* src, long long rows, long long cols) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < rows * cols) dst[i] = src[i % rows * cols + i / rows];
}
