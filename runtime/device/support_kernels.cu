// The measuring lane's own kernels: fill, compare, search, checksum, pause. Compiled by a compile
// worker like any other program; CudaDevice launches them. No toolkit header is needed.
#include "element_math.h"

using namespace hone::element;

namespace {

__device__ u64 GlobalThread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ u64 GlobalThreads() { return (u64)gridDim.x * blockDim.x; }

__device__ u64 LoadElement(const unsigned char* from, int bytes) {
  switch (bytes) {
    case 1:
      return *from;
    case 2:
      return *(const unsigned short*)from;
    case 4:
      return *(const u32*)from;
    default:
      return *(const u64*)from;
  }
}

__device__ void StoreElement(unsigned char* to, int bytes, u64 bits) {
  switch (bytes) {
    case 1:
      *to = (unsigned char)bits;
      break;
    case 2:
      *(unsigned short*)to = (unsigned short)bits;
      break;
    case 4:
      *(u32*)to = (u32)bits;
      break;
    default:
      *(u64*)to = bits;
  }
}

struct Found {
  u64 mismatches;
  u64 first;
  u64 abs_error;  // bits of a double that is not negative: they order like integers
  u64 rel_error;
};

__device__ void ComparePiece(const CompareParameters& p, const unsigned char* values,
                             const unsigned char* reference, u64 first_element, int elements,
                             Found& found) {
  const int size = ElementBytes(p.type);
  for (int i = 0; i < elements; ++i) {
    const Difference difference = ComparePair(p, LoadElement(values + i * size, size),
                                              LoadElement(reference + i * size, size));
    const u64 abs_error = DoubleBits(difference.abs_error);
    const u64 rel_error = DoubleBits(difference.rel_error);
    if (abs_error > found.abs_error) found.abs_error = abs_error;
    if (rel_error > found.rel_error) found.rel_error = rel_error;
    if (!difference.mismatch) continue;
    if (found.mismatches++ == 0) found.first = first_element + (u64)i;
  }
}

}  // namespace

extern "C" __global__ void hone_fill(unsigned char* to, const FillParameters p) {
  const int size = ElementBytes(p.type);
  for (u64 i = GlobalThread(); i < p.count; i += GlobalThreads()) {
    StoreElement(to + i * size, size, ElementBits(p, i));
  }
}

// `out` begins as {0, ~0, 0, 0}.
extern "C" __global__ void hone_compare(const unsigned char* values,
                                        const unsigned char* reference, u64 elements,
                                        const CompareParameters p, Found* out) {
  const int size = ElementBytes(p.type);
  Found found = {0, ~0ULL, 0, 0};
  const bool vectors = (((u64)values | (u64)reference) & 15) == 0;
  const int per_vector = vectors ? 16 / size : 1;
  const u64 pieces = elements / per_vector;
  for (u64 i = GlobalThread(); i < pieces; i += GlobalThreads()) {
    const u64 offset = i * per_vector * size;
    if (vectors) {
      const ulonglong2 a = *(const ulonglong2*)(values + offset);
      const ulonglong2 b = *(const ulonglong2*)(reference + offset);
      if (a.x == b.x && a.y == b.y && p.nan_forbidden == 0) continue;
    }
    ComparePiece(p, values + offset, reference + offset, i * per_vector, per_vector, found);
  }
  if (GlobalThread() == 0) {
    const u64 done = pieces * per_vector;
    ComparePiece(p, values + done * size, reference + done * size, done, (int)(elements - done),
                 found);
  }
  if (found.abs_error != 0) atomicMax(&out->abs_error, found.abs_error);
  if (found.rel_error != 0) atomicMax(&out->rel_error, found.rel_error);
  if (found.mismatches == 0) return;
  atomicAdd(&out->mismatches, found.mismatches);
  atomicMin(&out->first, found.first);
}

struct SearchRange {
  const unsigned char* address;
  u64 bytes;
  u64 value;
};

// first[r] begins as ~0 and becomes the offset of the first byte of ranges[r] that is not its value.
// blockIdx.y is the range.
extern "C" __global__ void hone_find_byte_not(const SearchRange* ranges, u64* first) {
  const SearchRange range = ranges[blockIdx.y];
  u64 found = ~0ULL;
  for (u64 i = GlobalThread(); i < range.bytes && found == ~0ULL; i += GlobalThreads()) {
    if (range.address[i] != range.value) found = i;
  }
  if (found != ~0ULL) atomicMin(&first[blockIdx.y], found);
}

// Adds every word's share to *sum, which begins as 0.
extern "C" __global__ void hone_checksum(const unsigned char* from, u64 bytes, u64* sum) {
  const bool aligned = ((u64)from & 7) == 0;
  const u64 words = (bytes + 7) / 8;
  u64 share = 0;
  for (u64 i = GlobalThread(); i < words; i += GlobalThreads()) {
    u64 word = 0;
    if (aligned && i * 8 + 8 <= bytes) {
      word = *(const u64*)(from + i * 8);
    } else {
      for (u64 b = 0; b < 8 && i * 8 + b < bytes; ++b) word |= (u64)from[i * 8 + b] << (8 * b);
    }
    share += ChecksumShare(word, i);
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    share += __shfl_down_sync(0xffffffffu, share, distance);
  }
  if ((threadIdx.x & 31) == 0) atomicAdd(sum, share);
}

// Keeps the stream busy while the host enqueues what is to be timed, so that the host's share of a
// launch is not part of the time.
extern "C" __global__ void hone_pause(u64 duration_ns) {
  u64 begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < duration_ns);
}
