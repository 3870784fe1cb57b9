// Copies from device memory to device memory through a ring of buffers in shared memory, by the bulk copy
// engine (sm_90 and later). One thread keeps it busy; no register and no other thread is needed for what
// is on its way.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

// Pointers and bytes are multiples of 16.
struct BulkPiece {
  const void* from;
  void* to;
  unsigned int bytes;
};

namespace bulk {

__device__ inline unsigned int SharedAddress(const void* pointer) {
  return static_cast<unsigned int>(__cvta_generic_to_shared(pointer));
}

__device__ inline void Load(char* buffer, const BulkPiece& piece, unsigned long long* full) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(SharedAddress(full)), "r"(piece.bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :
      : "r"(SharedAddress(buffer)), "l"(piece.from), "r"(piece.bytes),
        "r"(SharedAddress(full))
      : "memory");
}

// Waits until what was loaded in the barrier's phase of this parity has come.
__device__ inline void WaitFor(unsigned long long* full, unsigned int parity) {
  unsigned int done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(SharedAddress(full)), "r"(parity)
        : "memory");
  }
}

__device__ inline void Store(const BulkPiece& piece, const char* buffer) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :
               : "l"(piece.to), "r"(SharedAddress(buffer)), "r"(piece.bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

}  // namespace bulk

// Copies pieces blockIdx.x, blockIdx.x + gridDim.x, ... below `count`; piece_at(i) says what piece i is, of
// at most BYTES. `buffers`: STAGES * BYTES of shared memory, a multiple of 16. To be called by one thread.
template <int STAGES, int BYTES, typename PieceAt>
__device__ inline void BulkCopy(char* buffers, long long count, PieceAt piece_at) {
  static_assert(STAGES >= 2, "a stage is loaded while the one after it is stored");
  __shared__ unsigned long long full[STAGES];
  for (int stage = 0; stage < STAGES; ++stage) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
                 :
                 : "r"(bulk::SharedAddress(&full[stage]))
                 : "memory");
  }
  // For the engine, which arrives at them too.
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");

  long long next = blockIdx.x;
  for (int stage = 0; stage < STAGES && next < count; ++stage, next += gridDim.x) {
    bulk::Load(buffers + stage * BYTES, piece_at(next), &full[stage]);
  }
  int stage = 0;
  unsigned int parity = 0;
  for (long long at = blockIdx.x; at < count; at += gridDim.x) {
    bulk::WaitFor(&full[stage], parity);
    bulk::Store(piece_at(at), buffers + stage * BYTES);
    if (at != blockIdx.x && next < count) {
      // The store before this one has read its buffer, which is free for the next load.
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
      const int before = stage == 0 ? STAGES - 1 : stage - 1;
      bulk::Load(buffers + before * BYTES, piece_at(next), &full[before]);
      next += gridDim.x;
    }
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

#endif
