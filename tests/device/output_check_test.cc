#include "runtime/device/output_check.h"

#include <gtest/gtest.h>

#include <limits>

#include "runtime/device/device_memory.h"

namespace hone {
namespace {

TEST(OutputCheckTest, AWrongResultSaysHowManyWhereAndByHowMuch) {
  OutputMismatch mismatch;
  mismatch.output = "dst";
  mismatch.sizes = "n=4096";
  mismatch.result = {.elements = 4096,
                     .mismatches = 12,
                     .max_abs_error = 1.5,
                     .max_rel_error = 1,
                     .first_mismatch = 77,
                     .first_value = 0,
                     .first_reference = 1.5};
  EXPECT_EQ(
      WrongResult(mismatch).detail,
      "wrong result in dst at n=4096: 12 of 4096 elements, first at 77: 0 instead of 1.5, max "
      "error 1.5");
  mismatch.first_unwritten = true;
  mismatch.result.max_abs_error = std::numeric_limits<double>::infinity();
  EXPECT_EQ(WrongResult(mismatch).detail,
            "wrong result in dst at n=4096: 12 of 4096 elements, first at 77: not written instead "
            "of 1.5");
}

TEST(OutputCheckTest, AShareOfMismatchesMayBeAllowed) {
  EXPECT_TRUE(WithinTolerance({.elements = 100, .mismatches = 1}, {.mismatch_share_max = 0.01}));
  EXPECT_FALSE(WithinTolerance({.elements = 100, .mismatches = 2}, {.mismatch_share_max = 0.01}));
  EXPECT_FALSE(WithinTolerance({.elements = 100, .mismatches = 1}, {}));
  EXPECT_TRUE(WithinTolerance({.elements = 0, .mismatches = 0}, {}));
}

TEST(OutputCheckTest, FaultsAreNamedByWhatTheDriverSays) {
  const auto kind = [](const char* message) {
    return LaunchFailed(absl::AbortedError(message), "n=1").kind;
  };
  EXPECT_EQ(kind("cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"),
            RejectionKind::kIllegalAccess);
  EXPECT_EQ(kind("cuStreamSynchronize: CUDA_ERROR_MISALIGNED_ADDRESS: misaligned"),
            RejectionKind::kIllegalAccess);
  EXPECT_EQ(kind("cuStreamSynchronize: CUDA_ERROR_LAUNCH_TIMEOUT: timed out"),
            RejectionKind::kTimeout);
  EXPECT_EQ(kind("cuStreamSynchronize: CUDA_ERROR_ASSERT: device-side assert"),
            RejectionKind::kCrash);
  EXPECT_EQ(kind("__trap was called at copy.cu:3"), RejectionKind::kCrash);
}

TEST(OutputCheckTest, TooMuchMemoryKeepsBothFigures) {
  const Rejection rejection = LaunchFailed(OutOfDeviceMemory("scratch", 100, 40), "n=1");
  EXPECT_EQ(rejection.kind, RejectionKind::kResources);
  EXPECT_EQ(rejection.needed, 100);
  EXPECT_EQ(rejection.limit, 40);
  EXPECT_EQ(rejection.detail, "scratch needs 100 bytes of device memory, 40 are available at n=1");
}

}  // namespace
}  // namespace hone
