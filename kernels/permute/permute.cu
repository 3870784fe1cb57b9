// dst is src with its axes in another order, both dense: axis k of dst is the axis of src that digit k
// of ORDER names, both counted from the outermost.
//
// Where the innermost axes of src and dst are the same, neighbours stay neighbours and permute_rows
// copies. Elsewhere permute_tiles transposes, see transpose_tile.cuh. Axes of extent 1 do not count.
#include "transpose_tile.cuh"

// The axes of dst, outermost first: their extents, and how far apart their elements lie in src.
template <int ORDER>
struct Axes {
  long long extent[4];
  long long stride[4];

  __device__ static constexpr int AxisOfSource(int k) {
    return (k == 0 ? ORDER / 1000 : k == 1 ? ORDER / 100 : k == 2 ? ORDER / 10 : ORDER) % 10;
  }
  // Axes k and k + 1 are neighbours in src too: one axis, whatever their extents.
  __device__ static constexpr bool Folds(int k) {
    return k < 3 && AxisOfSource(k + 1) == AxisOfSource(k) + 1;
  }

  __device__ Axes(long long d0, long long d1, long long d2, long long d3) {
    const long long extents[4] = {d0, d1, d2, d3};
    const long long strides[4] = {d1 * d2 * d3, d2 * d3, d3, 1};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      extent[k] = extents[AxisOfSource(k)];
      stride[k] = strides[AxisOfSource(k)];
      if (k > 0 && Folds(k - 1)) {
        extent[k] *= extent[k - 1];
        extent[k - 1] = 1;
      }
    }
  }

  // Moves axes inwards over those of extent 1, and folds those that have become neighbours.
  __device__ void DropOnes() {
#pragma unroll
    for (int k = 1; k < 4; ++k) {
      if (extent[k] == 1) {
        extent[k] = extent[k - 1];
        stride[k] = stride[k - 1];
        extent[k - 1] = 1;
      } else if (stride[k - 1] == extent[k] * stride[k]) {
        extent[k] *= extent[k - 1];
        extent[k - 1] = 1;
      }
    }
  }
};

// Where in src the access-th VEC elements of dst begin. Index: unsigned where that is enough, because
// divisions of 32 bits take a fraction of the instructions of 64.
template <typename Index, int VEC, int ORDER>
__device__ inline long long SourceOf(Index access, const Axes<ORDER>& axes) {
  long long offset = 0;
  bool outermost = false;
#pragma unroll
  for (int k = 3; k >= 0 && !outermost; --k) {
    if (Axes<ORDER>::Folds(k)) continue;  // into axis k + 1
    outermost = true;
    for (int outer = 0; outer < k; ++outer) outermost &= Axes<ORDER>::Folds(outer);
    const int vec = k == 3 ? VEC : 1;
    Index at = access;
    if (!outermost) {
      const Index extent = static_cast<Index>(axes.extent[k] / vec);
      access /= extent;
      at -= access * extent;
    }
    offset += static_cast<long long>(at) * (axes.stride[k] * vec);
  }
  return offset;
}

template <typename T, int ORDER, int THREADS, int VEC, int ITEMS>
__global__ void __launch_bounds__(THREADS)
    permute_rows(T* dst, const T* src, long long d0, long long d1, long long d2, long long d3) {
  // Other orders get here where their innermost axes have the extent 1.
  constexpr int kVec = Axes<ORDER>::AxisOfSource(3) == 3 ? VEC : 1;
  using Access = Word<kVec * sizeof(T)>;
  const Axes<ORDER> axes(d0, d1, d2, d3);
  const long long accesses = d0 * d1 * d2 * d3 / kVec;
  const long long first = static_cast<long long>(blockIdx.x) * (THREADS * ITEMS) + threadIdx.x;
  const bool small = accesses <= 0xffffffffLL;

  Access loaded[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long at = first + i * THREADS;
    if (at < accesses) {
      const long long from = small ? SourceOf<unsigned, kVec>(static_cast<unsigned>(at), axes)
                                   : SourceOf<long long, kVec>(at, axes);
      loaded[i] = Load<kCachePlain>(reinterpret_cast<const Access*>(src + from));
    }
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long at = first + i * THREADS;
    if (at < accesses) Store<kCachePlain>(reinterpret_cast<Access*>(dst) + at, loaded[i]);
  }
}

template <typename T, int ORDER, int TILE_ROWS, int TILE_COLS, int THREADS, int VEC, int GROUP>
__global__ void __launch_bounds__(THREADS)
    permute_tiles(T* dst, const T* src, long long d0, long long d1, long long d2, long long d3) {
  // Orders that keep the innermost axis get here where its extent is 1. Then no access is wider than an
  // element, and the host, which looks at the order only, cannot count the tiles.
  constexpr bool kLoops = Axes<ORDER>::AxisOfSource(3) == 3;
  constexpr int kVec = kLoops ? 1 : VEC;
  constexpr int kTileRows = kLoops ? 32 : TILE_ROWS;
  constexpr int kTileCols = kLoops ? 32 : TILE_COLS;
  using Tile = TransposeTile<Word<sizeof(T)>, kTileRows, kTileCols, THREADS, kVec, kVec>;
  __shared__ typename Tile::Out tile[Tile::kOuts];

  // Rows of tiles lie along the innermost axis of dst, columns along that of src, whose elements are
  // dst_stride apart in dst. The other two axes are left.
  Axes<ORDER> axes(d0, d1, d2, d3);
  axes.DropOnes();
  const long long rows = axes.extent[3];
  long long strides[3];  // in dst
  strides[2] = rows;
  strides[1] = strides[2] * axes.extent[2];
  strides[0] = strides[1] * axes.extent[1];
  long long cols = 1;
  long long dst_stride = 1;
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    if (axes.stride[k] == 1 && axes.extent[k] != 1) {
      cols = axes.extent[k];
      dst_stride = strides[k];
      axes.extent[k] = 1;
    }
  }

  const unsigned row_tiles = static_cast<unsigned>((rows + kTileRows - 1) / kTileRows);
  const unsigned col_tiles = static_cast<unsigned>((cols + kTileCols - 1) / kTileCols);
  const long long of_matrix = static_cast<long long>(row_tiles) * col_tiles;
  const long long tiles = of_matrix * axes.extent[0] * axes.extent[1] * axes.extent[2];
  for (long long at = blockIdx.x; at < tiles; at += gridDim.x) {
    long long matrix = at / of_matrix;
    unsigned row_tile, col_tile;
    TileOfBlock<GROUP>(static_cast<unsigned>(at - matrix * of_matrix), row_tiles, col_tiles, row_tile,
                       col_tile);
    const long long row = static_cast<long long>(row_tile) * kTileRows;
    const long long col = static_cast<long long>(col_tile) * kTileCols;
    long long from = row * axes.stride[3] + col;
    long long to = col * dst_stride + row;
#pragma unroll
    for (int k = 2; k >= 0; --k) {
      const long long outer = matrix / axes.extent[k];
      const long long coordinate = matrix - outer * axes.extent[k];
      from += coordinate * axes.stride[k];
      to += coordinate * strides[k];
      matrix = outer;
    }
    if (at != blockIdx.x) __syncthreads();  // the tile before has been read
    Tile::Move(tile, reinterpret_cast<Word<sizeof(T)>*>(dst) + to, dst_stride,
               reinterpret_cast<const Word<sizeof(T)>*>(src) + from, axes.stride[3],
               static_cast<int>(rows - row < kTileRows ? rows - row : kTileRows),
               static_cast<int>(cols - col < kTileCols ? cols - col : kTileCols));
    if constexpr (!kLoops) return;
  }
}

template <typename T, int ORDER>
__global__ void permute_reference(T* dst, const T* src, long long d0, long long d1, long long d2,
                                  long long d3) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= d0 * d1 * d2 * d3) return;
  const long long extents[4] = {d0, d1, d2, d3};
  const int axes[4] = {ORDER / 1000, ORDER / 100 % 10, ORDER / 10 % 10, ORDER % 10};
  long long at[4];
  long long rest = i;
  for (int k = 3; k >= 0; --k) {
    at[axes[k]] = rest % extents[axes[k]];
    rest /= extents[axes[k]];
  }
  dst[i] = src[((at[0] * d1 + at[1]) * d2 + at[2]) * d3 + at[3]];
}
