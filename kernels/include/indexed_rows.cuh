// Rows of a table, named by an index: read from there (gather) or written there (scatter).
#pragma once

#include "pack.cuh"

// Row i of a dense `rows` x `cols` matrix and row index[i] of a table of table_rows, which is src or, of
// SCATTER, dst. LANES of the block's THREADS share a row and take ITEMS accesses of VEC elements each;
// longer rows are spread over blocks. `cols` is a multiple of VEC.
//
// An index outside of the table touches no memory there: gather gives zeros, scatter leaves row i out.
template <bool SCATTER, int THREADS, int LANES, int VEC, int ITEMS, int CACHE, typename T, typename Index>
__device__ inline void MoveIndexedRows(T* dst, const T* src, const Index* index, long long rows,
                                       long long cols, long long table_rows) {
  using Access = Word<VEC * sizeof(T)>;
  constexpr int kChunk = LANES * VEC * ITEMS;
  const unsigned chunks = static_cast<unsigned>((cols + kChunk - 1) / kChunk);
  const unsigned block = blockIdx.x / chunks;
  const long long row = static_cast<long long>(block) * (THREADS / LANES) + threadIdx.x / LANES;
  const unsigned chunk = blockIdx.x - block * chunks;
  const long long col = static_cast<long long>(chunk) * kChunk + threadIdx.x % LANES * VEC;
  if (row >= rows) return;
  const long long named = index[row];
  const bool inside = named >= 0 && named < table_rows;
  if (SCATTER && !inside) return;
  const T* const from = src + (SCATTER ? row : named) * cols;
  T* const to = dst + (SCATTER ? named : row) * cols;

  Access loaded[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long at = col + i * LANES * VEC;
    loaded[i] = Access{};
    if (at < cols && inside) loaded[i] = Load<CACHE>(reinterpret_cast<const Access*>(from + at));
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long at = col + i * LANES * VEC;
    if (at < cols) Store<CACHE>(reinterpret_cast<Access*>(to + at), loaded[i]);
  }
}
