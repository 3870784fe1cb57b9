#include "runtime/launch/cuda_device_info.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(CudaDeviceInfoTest, TargetsHaveTheArchitecturesOwnInstructionsFromHopperOn) {
  EXPECT_EQ(ArchitectureOf(8, 0), "sm_80");
  EXPECT_EQ(ArchitectureOf(8, 9), "sm_89");
  EXPECT_EQ(ArchitectureOf(9, 0), "sm_90a");
  EXPECT_EQ(ArchitectureOf(10, 3), "sm_103a");
  EXPECT_EQ(ArchitectureOf(12, 0), "sm_120a");
}

// scenario P34
TEST(CudaDeviceInfoTest, ASliceIsKnownByItsProfile) {
  EXPECT_EQ(SliceOf("NVIDIA H200"), "");
  EXPECT_EQ(SliceOf("NVIDIA H200 MIG 1g.18gb"), "MIG 1g.18gb");
}

}  // namespace
}  // namespace hone
