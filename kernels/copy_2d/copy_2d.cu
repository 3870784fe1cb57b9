// dst[r][c] = src[r][c] for rows that lie `stride` elements apart.
//
// The layout lesson: elements of a row are neighbours in memory. With ORDER 0 neighbouring threads
// (and blocks) walk along a row, with ORDER 1 down a column. Both copy the same bytes.
//
// With STAGES the bulk copy engine carries pieces of rows through shared memory.
#include "bulk_copy.cuh"
#include "pack.cuh"

template <typename T, int ORDER, int XBLOCK, int YBLOCK, int VEC, int ITEMS, int BLOCKS_PER_SM, int STAGES>
__global__ void __launch_bounds__(XBLOCK* YBLOCK)
    copy_2d(T* dst, const T* src, long long rows, long long cols, long long dst_stride,
            long long src_stride) {
  // threadIdx.x walks the fast dimension of ORDER; threadIdx.y and ITEMS the other one. cols is a
  // multiple of VEC (a guard), so an access lies inside or outside as a whole.
  constexpr bool kAlongRow = ORDER == 0;
  constexpr int kTileRows = kAlongRow ? YBLOCK * ITEMS : XBLOCK;
  constexpr int kTileCols = (kAlongRow ? XBLOCK : YBLOCK * ITEMS) * VEC;

  if constexpr (STAGES > 0) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char buffers[];
    if (threadIdx.x == 0) {
      const unsigned pieces = static_cast<unsigned>((cols + kTileCols - 1) / kTileCols);  // of a row
      BulkCopy<STAGES, kTileCols * sizeof(T)>(buffers, rows * pieces, [&](long long piece) {
        const long long row = piece / pieces;
        const long long col = (piece - row * pieces) * kTileCols;
        const long long left = cols - col;
        return BulkPiece{src + row * src_stride + col, dst + row * dst_stride + col,
                         static_cast<unsigned>((left < kTileCols ? left : kTileCols) * sizeof(T))};
      });
    }
#endif
  } else {
    using Access = Word<VEC * sizeof(T)>;
    const long long row_tiles = (rows + kTileRows - 1) / kTileRows;
    const long long col_tiles = (cols + kTileCols - 1) / kTileCols;
    const long long tiles = row_tiles * col_tiles;
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const long long row_tile = kAlongRow ? tile / col_tiles : tile % row_tiles;
      const long long col_tile = kAlongRow ? tile % col_tiles : tile / row_tiles;
      const long long first_row = row_tile * kTileRows + (kAlongRow ? threadIdx.y : threadIdx.x);
      const long long first_col = col_tile * kTileCols + (kAlongRow ? threadIdx.x : threadIdx.y) * VEC;
      Access loaded[ITEMS];
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        const long long row = first_row + (kAlongRow ? i * YBLOCK : 0);
        const long long col = first_col + (kAlongRow ? 0 : i * YBLOCK * VEC);
        if (row < rows && col < cols) {
          loaded[i] = Load<kCachePlain>(reinterpret_cast<const Access*>(src + row * src_stride + col));
        }
      }
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        const long long row = first_row + (kAlongRow ? i * YBLOCK : 0);
        const long long col = first_col + (kAlongRow ? 0 : i * YBLOCK * VEC);
        if (row < rows && col < cols) {
          Store<kCachePlain>(reinterpret_cast<Access*>(dst + row * dst_stride + col), loaded[i]);
        }
      }
      if constexpr (BLOCKS_PER_SM == 0) return;
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
