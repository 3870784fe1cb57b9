// dst[r][c] = src[r][c] for rows that lie `stride` elements apart.
//
// The layout lesson: elements of a row are neighbours in memory. With ORDER 0 neighbouring threads
// (and blocks) walk along a row, with ORDER 1 down a column. Both copy the same bytes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

template <typename T, int ORDER, int XBLOCK, int YBLOCK, int VEC, int ITEMS>
__global__ void __launch_bounds__(XBLOCK* YBLOCK)
    copy_2d(T* dst, const T* src, long long rows, long long cols, long long dst_stride,
            long long src_stride) {
  // threadIdx.x walks the fast dimension of ORDER; threadIdx.y and ITEMS the other one.
  constexpr bool kAlongRow = ORDER == 0;
  constexpr int kTileRows = kAlongRow ? YBLOCK * ITEMS : XBLOCK;
  constexpr int kTileCols = (kAlongRow ? XBLOCK : YBLOCK * ITEMS) * VEC;
  const unsigned row_tiles = static_cast<unsigned>((rows + kTileRows - 1) / kTileRows);
  const unsigned col_tiles = static_cast<unsigned>((cols + kTileCols - 1) / kTileCols);
  const unsigned row_tile = kAlongRow ? blockIdx.x / col_tiles : blockIdx.x % row_tiles;
  const unsigned col_tile = kAlongRow ? blockIdx.x % col_tiles : blockIdx.x / row_tiles;
  const long long first_row = static_cast<long long>(row_tile) * kTileRows;
  const long long first_col = static_cast<long long>(col_tile) * kTileCols;

  using Access = Pack<T, VEC>;
  Access packs[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int other = static_cast<int>(threadIdx.y) + i * YBLOCK;
    const long long row = first_row + (kAlongRow ? other : static_cast<int>(threadIdx.x));
    const long long col = first_col + (kAlongRow ? static_cast<int>(threadIdx.x) : other) * VEC;
    // cols is a multiple of VEC (a guard), so an access lies inside or outside as a whole.
    if (row < rows && col < cols) {
      packs[i] = *reinterpret_cast<const Access*>(src + row * src_stride + col);
    }
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int other = static_cast<int>(threadIdx.y) + i * YBLOCK;
    const long long row = first_row + (kAlongRow ? other : static_cast<int>(threadIdx.x));
    const long long col = first_col + (kAlongRow ? static_cast<int>(threadIdx.x) : other) * VEC;
    if (row < rows && col < cols) {
      *reinterpret_cast<Access*>(dst + row * dst_stride + col) = packs[i];
    }
  }
}

template <typename T>
__global__ void copy_2d_reference(T* dst, const T* src, long long rows, long long cols,
                                  long long dst_stride, long long src_stride) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  const long long row = i / cols;
  const long long col = i % cols;
  dst[row * dst_stride + col] = src[row * src_stride + col];
}
