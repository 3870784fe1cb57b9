// What threads of a block do together: indices, barriers, warps, shared memory, ends.
#include <numeric>

#include "tests/cpu/cpu_kernel.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

TEST(BlockTest, EveryThreadOfA3dGridRunsOnceWithItsIndices) {
  CpuKernel kernel(R"(
    __global__ void mark(int* seen) {
      const int x = blockIdx.x * blockDim.x + threadIdx.x;
      const int y = blockIdx.y * blockDim.y + threadIdx.y;
      const int z = blockIdx.z * blockDim.z + threadIdx.z;
      const int width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
      seen[(z * height + y) * width + x] += 1 + x + 100 * y + 10000 * z;
    })",
                   "mark");
  std::vector<int> seen(20 * 12 * 6);
  ASSERT_THAT(kernel.Grid(4, 3, 2).Block(5, 4, 3).Launch(seen), IsOk());
  for (int z = 0; z < 6; ++z) {
    for (int y = 0; y < 12; ++y) {
      for (int x = 0; x < 20; ++x) {
        ASSERT_EQ(seen[(z * 12 + y) * 20 + x], 1 + x + 100 * y + 10000 * z);
      }
    }
  }
}

TEST(BlockTest, ManyBlocksAreSharedByHardwareThreads) {
  CpuKernel kernel(R"(
    __global__ void index(int* out, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) out[i] = i;
    })",
                   "index");
  std::vector<int> out(100'000, -1);
  ASSERT_THAT(kernel.Grid(391).Block(256).Launch(out, 99'999), IsOk());
  for (int i = 0; i < 99'999; ++i) ASSERT_EQ(out[i], i);
  EXPECT_EQ(out.back(), -1);
}

TEST(BlockTest, BarriersSeparateWritesFromReads) {
  CpuKernel kernel(R"(
    __global__ void rotate(int* data) {
      __shared__ int tile[256];
      for (int round = 0; round < 5; ++round) {
        tile[threadIdx.x] = data[blockIdx.x * 256 + threadIdx.x];
        __syncthreads();
        data[blockIdx.x * 256 + threadIdx.x] = tile[(threadIdx.x + 1) % 256];
        __syncthreads();
      }
    })",
                   "rotate");
  std::vector<int> data(64 * 256);
  std::iota(data.begin(), data.end(), 0);
  ASSERT_THAT(kernel.Grid(64).Block(256).Launch(data), IsOk());
  for (int i = 0; i < 64 * 256; ++i) {
    ASSERT_EQ(data[i], i / 256 * 256 + (i + 5) % 256) << "at " << i;
  }
}

TEST(BlockTest, BarriersWorkIn3dBlocksUpToTheLargest) {
  CpuKernel kernel(R"(
    __global__ void sum(int* out) {
      __shared__ int parts[1024];
      const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
      parts[t] = t;
      for (int step = 512; step > 0; step /= 2) {
        __syncthreads();
        if (t < step) parts[t] += parts[t + step];
      }
      if (t == 0) out[blockIdx.x] = parts[0];
    })",
                   "sum");
  std::vector<int> out(3);
  ASSERT_THAT(kernel.Grid(3).Block(16, 8, 8).Launch(out), IsOk());
  EXPECT_THAT(out, Each(1023 * 1024 / 2));
}

TEST(BlockTest, ThreadsThatEndedLeaveTheBarrier) {
  CpuKernel kernel(R"(
    __global__ void tail(int* out, int n) {
      __shared__ int tile[128];
      if (threadIdx.x >= n) return;
      tile[threadIdx.x] = threadIdx.x;
      __syncthreads();
      out[threadIdx.x] = tile[n - 1 - threadIdx.x];
    })",
                   "tail");
  std::vector<int> out(128, -1);
  ASSERT_THAT(kernel.Block(128).Launch(out, 77), IsOk());
  for (int i = 0; i < 77; ++i) ASSERT_EQ(out[i], 76 - i);
  EXPECT_EQ(out[77], -1);
}

TEST(BlockTest, ThreadsBeforeTheFirstThatWaitsMayHaveEnded) {
  CpuKernel kernel(R"(
    __global__ void head(int* out) {
      if (threadIdx.x < 40) { out[threadIdx.x] = 1; return; }
      __syncthreads();
      out[threadIdx.x] = 2;
    })",
                   "head");
  std::vector<int> out(64);
  ASSERT_THAT(kernel.Block(64).Launch(out), IsOk());
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0), 40 + 2 * 24);
}

TEST(BlockTest, BarriersThatReduceTellEveryThread) {
  CpuKernel kernel(R"(
    __global__ void votes(int* out) {
      const int t = threadIdx.x;
      out[t * 4] = __syncthreads_count(t % 3 == 0);
      out[t * 4 + 1] = __syncthreads_and(t < 96);
      out[t * 4 + 2] = __syncthreads_and(t < 95);
      out[t * 4 + 3] = __syncthreads_or(t == 95);
    })",
                   "votes");
  std::vector<int> out(96 * 4);
  ASSERT_THAT(kernel.Block(96).Launch(out), IsOk());
  for (int t = 0; t < 96; ++t) {
    ASSERT_EQ(out[t * 4], 32);
    ASSERT_EQ(out[t * 4 + 1], 1);
    ASSERT_EQ(out[t * 4 + 2], 0);
    ASSERT_EQ(out[t * 4 + 3], 1);
  }
}

TEST(BlockTest, DifferentBarriersInOneBlockAreReported) {
  CpuKernel kernel(R"(
    __global__ void split(int* out) {
      if (threadIdx.x < 16) {
        __syncthreads();
      } else {
        out[threadIdx.x] = 1;
        __syncthreads();
      }
    })",
                   "split");
  std::vector<int> out(32);
  EXPECT_THAT(kernel.Block(32).Launch(out),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("mismatched barriers: thread (16, 0, 0)"),
                             HasSubstr("kernel.cu:7"), HasSubstr("kernel.cu:4"))));
}

TEST(BlockTest, ABarrierThatOthersCannotReachIsReportedNotAwaited) {
  CpuKernel kernel(R"(
    __global__ void stuck(int* out) {
      if (threadIdx.x == 3) __shfl_sync(0xffffffff, 1, 0);
      __syncthreads();
      out[threadIdx.x] = 1;
    })",
                   "stuck");
  std::vector<int> out(64);
  EXPECT_THAT(kernel.Block(64).Launch(out),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("threads wait for ever: 63 of 64 at __syncthreads in "
                                       "kernel.cu:4"),
                             HasSubstr("thread (3, 0, 0) in a shuffle in kernel.cu:3"))));
}

TEST(BlockTest, TheLaunchAfterAFailedOneWorks) {
  CpuKernel kernel(R"(
    __global__ void sometimes(int* out, int bad) {
      if (bad && threadIdx.x % 2) __syncwarp();
      __syncthreads();
      out[blockIdx.x * blockDim.x + threadIdx.x] += 1;
    })",
                   "sometimes");
  std::vector<int> out(64 * 128);
  kernel.Grid(64).Block(128);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(kernel.Launch(out, 1),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("wait for ever")));
  }
  std::fill(out.begin(), out.end(), 0);
  ASSERT_THAT(kernel.Launch(out, 0), IsOk());
  EXPECT_THAT(out, Each(1));
}

TEST(BlockTest, DynamicSharedMemoryHasTheSizeOfTheLaunch) {
  CpuKernel kernel(R"(
    template <typename T> __global__ void reverse(T* data) {
      extern __shared__ __align__(16) unsigned char raw[];
      T* tile = reinterpret_cast<T*>(raw);
      tile[threadIdx.x] = data[threadIdx.x];
      __syncthreads();
      data[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
    })",
                   "reverse<double>");
  std::vector<double> data(1000);
  std::iota(data.begin(), data.end(), 0.0);
  ASSERT_THAT(kernel.Block(1000).Shared(8000).Launch(data), IsOk());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(data[i], 999 - i);
}

TEST(BlockTest, SharedMemoryHoldsHalves) {
  CpuKernel kernel(R"(
    #include <cuda_fp16.h>
    template <typename T, int N> __global__ void neighbours(T* data) {
      __shared__ alignas(16) T tile[N];
      tile[threadIdx.x] = data[threadIdx.x];
      __syncthreads();
      data[threadIdx.x] = tile[threadIdx.x ^ 1];
    })",
                   "neighbours<__half, 32>");
  std::vector<uint16_t> data(32);
  std::iota(data.begin(), data.end(), 0x3c00);
  ASSERT_THAT(kernel.Block(32).Launch(data), IsOk());
  for (int i = 0; i < 32; ++i) ASSERT_EQ(data[i], 0x3c00 + (i ^ 1));
}

TEST(BlockTest, AssertionsAndTrapsEndTheLaunchWithTheirPlace) {
  CpuKernel kernel(R"(
    #include <assert.h>
    __global__ void check(int* out, int limit) {
      __syncthreads();
      assert(threadIdx.x < limit);
      if (out[0] == 7) __trap();
    })",
                   "check");
  std::vector<int> out(1);
  kernel.Grid(2).Block(8);
  EXPECT_THAT(kernel.Launch(out, 8), IsOk());
  EXPECT_THAT(kernel.Launch(out, 5),
              StatusIs(absl::StatusCode::kAborted,
                       AllOf(HasSubstr("assertion `threadIdx.x < limit' failed at kernel.cu:5"),
                             HasSubstr("thread (5, 0, 0)"))));
  out[0] = 7;
  EXPECT_THAT(kernel.Launch(out, 8),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("__trap was called at kernel.cu:6")));
}

TEST(BlockTest, DeepLocalArraysFitTheStack) {
  CpuKernel kernel(R"(
    __global__ void local(float* out, int n) {
      float big[100000];
      for (int i = 0; i < n; ++i) big[i] = i + threadIdx.x;
      __syncthreads();
      float sum = 0;
      for (int i = 0; i < n; ++i) sum += big[n - 1 - i];
      out[threadIdx.x] = sum;
    })",
                   "local");
  std::vector<float> out(4);
  ASSERT_THAT(kernel.Block(4).Launch(out, 100), IsOk());
  for (int t = 0; t < 4; ++t) EXPECT_EQ(out[t], 4950 + 100 * t);
}

TEST(BlockTest, LaunchesThatAGpuWouldRefuseAreRefused) {
  CpuKernel kernel("__global__ void nothing(int* p, float x) {}", "nothing");
  std::vector<int> p(1);
  const absl::StatusCode refused = absl::StatusCode::kFailedPrecondition;
  EXPECT_THAT(kernel.Block(1025).Launch(p, 1.0f),
              StatusIs(refused, HasSubstr("threads per block is 1025, the limit is 1024")));
  EXPECT_THAT(kernel.Block(1).Shared(233'472).Launch(p, 1.0f),  // scenario P24
              StatusIs(refused, AllOf(HasSubstr("233472"), HasSubstr("the limit is 232448"))));
  EXPECT_THAT(kernel.Shared(0).Grid(1, 65'536).Launch(p, 1.0f),
              StatusIs(refused, HasSubstr("grid")));
  EXPECT_THAT(kernel.Grid(1).Launch(p), StatusIs(refused, HasSubstr("takes 2 arguments, given 1")));
  EXPECT_THAT(kernel.Launch(p, 1.0), StatusIs(refused, HasSubstr("has 4 bytes, given 8")));
  EXPECT_THAT(kernel.Grid(0).Launch(p, 1.0f), IsOk());
}

}  // namespace
}  // namespace hone
