// Shuffles, votes and other exchanges between the lanes of a warp.
#include <bit>
#include <numeric>

#include "tests/cpu/cpu_kernel.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

TEST(WarpTest, ShufflesReduceAWarpAndABlock) {
  CpuKernel kernel(R"(
    __device__ float warp_sum(float v) {
      for (int delta = 16; delta > 0; delta /= 2) v += __shfl_down_sync(0xffffffff, v, delta);
      return v;
    }
    __global__ void block_sum(float* out, const float* in) {
      __shared__ float parts[32];
      float v = warp_sum(in[blockIdx.x * blockDim.x + threadIdx.x]);
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
      __syncthreads();
      if (threadIdx.x < 32) {
        v = warp_sum(threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) out[blockIdx.x] = v;
      }
    })",
                   "block_sum");
  std::vector<float> in(40 * 512);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 7);
  std::vector<float> out(40);
  ASSERT_THAT(kernel.Grid(40).Block(512).Launch(out, in), IsOk());
  for (int b = 0; b < 40; ++b) {
    EXPECT_EQ(out[b], std::accumulate(&in[b * 512], &in[b * 512] + 512, 0.0f));
  }
}

TEST(WarpTest, ShufflesFollowCudasRulesForSegmentsAndEdges) {
  CpuKernel kernel(R"(
    __global__ void shuffles(int* out) {
      const int lane = threadIdx.x;
      const unsigned all = 0xffffffff;
      out[lane] = __shfl_sync(all, lane, 5);
      out[32 + lane] = __shfl_sync(all, lane, 9, 8);
      out[64 + lane] = __shfl_up_sync(all, lane, 3, 16);
      out[96 + lane] = __shfl_down_sync(all, lane, 3, 8);
      out[128 + lane] = __shfl_xor_sync(all, lane, 1);
      out[160 + lane] = (int)__shfl_xor_sync(all, 1.5 * lane, 2);
    })",
                   "shuffles");
  std::vector<int> out(192);
  ASSERT_THAT(kernel.Block(32).Launch(out), IsOk());
  for (int lane = 0; lane < 32; ++lane) {
    ASSERT_EQ(out[lane], 5);
    ASSERT_EQ(out[32 + lane], lane / 8 * 8 + 1);
    ASSERT_EQ(out[64 + lane], lane % 16 >= 3 ? lane - 3 : lane);
    ASSERT_EQ(out[96 + lane], lane % 8 + 3 < 8 ? lane + 3 : lane);
    ASSERT_EQ(out[128 + lane], lane ^ 1);
    ASSERT_EQ(out[160 + lane], static_cast<int>(1.5 * (lane ^ 2)));
  }
}

TEST(WarpTest, HalvesOfAWarpMayWorkApart) {
  CpuKernel kernel(R"(
    __global__ void apart(int* out) {
      const int lane = threadIdx.x % 32;
      const unsigned mask = lane < 16 ? 0x0000ffff : 0xffff0000;
      int v = threadIdx.x;
      if (lane < 16) {
        for (int d = 8; d > 0; d /= 2) v += __shfl_xor_sync(mask, v, d);
      } else {
        v = __reduce_max_sync(mask, v);
      }
      __syncwarp();
      out[threadIdx.x] = v;
    })",
                   "apart");
  std::vector<int> out(64);
  ASSERT_THAT(kernel.Block(64).Launch(out), IsOk());
  EXPECT_EQ(out[0], 120);
  EXPECT_EQ(out[15], 120);
  EXPECT_EQ(out[16], 31);
  EXPECT_EQ(out[32], 120 + 16 * 32);
  EXPECT_EQ(out[63], 63);
}

TEST(WarpTest, VotesMatchesAndReductions) {
  CpuKernel kernel(R"(
    __global__ void votes(unsigned* out) {
      const unsigned all = 0xffffffff, lane = threadIdx.x;
      unsigned* mine = out + lane * 10;
      mine[0] = __ballot_sync(all, lane % 4 == 1);
      mine[1] = __any_sync(all, lane == 40) * 2 + __any_sync(all, lane == 4);
      mine[2] = __all_sync(all, lane < 32) * 2 + __all_sync(all, lane < 31);
      mine[3] = __match_any_sync(all, lane / 8);
      int same = 0;
      mine[4] = __match_all_sync(all, 5, &same) + same;
      mine[5] = __match_all_sync(all, lane, &same) + same;
      mine[6] = __reduce_add_sync(all, lane);
      mine[7] = __reduce_min_sync(all, (int)lane - 9);
      mine[8] = __reduce_xor_sync(all, 1u << lane);
      mine[9] = __reduce_min_sync(all, lane - 9);
    })",
                   "votes");
  std::vector<uint32_t> out(320);
  ASSERT_THAT(kernel.Block(32).Launch(out), IsOk());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t* mine = &out[lane * 10];
    ASSERT_EQ(mine[0], 0x22222222u);
    ASSERT_EQ(mine[1], 1u);
    ASSERT_EQ(mine[2], 2u);
    ASSERT_EQ(mine[3], 0xffu << lane / 8 * 8);
    ASSERT_EQ(mine[4], 0xffffffffu + 1);
    ASSERT_EQ(mine[5], 0u);
    ASSERT_EQ(mine[6], 496u);
    ASSERT_EQ(static_cast<int>(mine[7]), -9);
    ASSERT_EQ(mine[8], 0xffffffffu);
    ASSERT_EQ(mine[9], 0u);
  }
}

TEST(WarpTest, ActiveLanesAreThoseOnTheSameBranch) {
  CpuKernel kernel(R"(
    __global__ void aggregate(unsigned* out, int* count) {
      if (threadIdx.x % 3 == 0) {
        const unsigned mask = __activemask();
        out[threadIdx.x] = mask;
        if (threadIdx.x % 32 == __ffs(mask) - 1) atomicAdd(count, __popc(mask));
      }
    })",
                   "aggregate");
  std::vector<uint32_t> out(64);
  std::vector<int> count(1);
  ASSERT_THAT(kernel.Block(64).Launch(out, count), IsOk());
  EXPECT_EQ(count[0], 22);
  EXPECT_EQ(out[0], 0x49249249u);
  EXPECT_EQ(out[33], 0x92492492u);
}

TEST(WarpTest, LanesThatEndedAreNotAwaited) {
  CpuKernel kernel(R"(
    __global__ void vote(unsigned* out) {
      if (threadIdx.x >= 20) return;
      out[threadIdx.x] = __ballot_sync(0xffffffff, 1);
    })",
                   "vote");
  std::vector<uint32_t> out(20);
  ASSERT_THAT(kernel.Block(48).Launch(out), IsOk());
  EXPECT_THAT(out, Each(0xfffffu));
}

TEST(WarpTest, ReadingFromALaneThatIsNotThereIsReported) {
  CpuKernel kernel(R"(
    __global__ void tail(int* out, int n) {
      if (threadIdx.x >= n) return;
      out[threadIdx.x] = __shfl_down_sync(0xffffffff, threadIdx.x, 1);
    })",
                   "tail");
  std::vector<int> out(32);
  kernel.Block(32);
  EXPECT_THAT(kernel.Launch(out, 32), IsOk());
  EXPECT_THAT(kernel.Launch(out, 20),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("thread (19, 0, 0) shuffles from lane 20 in kernel.cu:4"),
                             HasSubstr("lanes present 0xfffff"))));
}

TEST(WarpTest, AMaskWithoutTheCallersLaneIsReported) {
  CpuKernel kernel("__global__ void f() { __syncwarp(0xffff); }", "f");
  EXPECT_THAT(kernel.Block(32).Launch(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("its own lane 16")));
}

}  // namespace
}  // namespace hone
