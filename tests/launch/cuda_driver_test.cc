#include "runtime/launch/cuda_driver.h"

#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;
using enum absl::StatusCode;

TEST(CudaDriverTest, IsUsableOrSaysWhyNot) {
  const absl::StatusOr<const CudaDriver*> driver = CudaDriver::Get();
  if (driver.ok()) {
    int version = 0;
    EXPECT_EQ((*driver)->DriverGetVersion(&version), CUDA_SUCCESS);
    EXPECT_GE(version, 12000);
  } else {
    EXPECT_EQ(driver.status().code(), kFailedPrecondition);
    EXPECT_THAT(std::string(driver.status().message()), HasSubstr("cu"));
  }
  // Asked again, the answer is the same.
  EXPECT_EQ(CudaDriver::Get().status(), driver.status());
}

TEST(CudaDriverTest, ErrorsBecomeStatusByWhatTheyMeanForTheContext) {
  const CudaDriver driver;
  EXPECT_THAT(driver.ToStatus(CUDA_SUCCESS, "cuInit"), IsOk());
  EXPECT_THAT(driver.ToStatus(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc"),
              StatusIs(kResourceExhausted, HasSubstr("cuMemAlloc")));
  for (const CUresult sticky :
       {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_FAILED,
        CUDA_ERROR_ASSERT, CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUDA_ERROR_ILLEGAL_INSTRUCTION}) {
    EXPECT_EQ(driver.ToStatus(sticky, "cuCtxSynchronize").code(), kAborted) << sticky;
  }
  for (const CUresult refused : {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                                 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, CUDA_ERROR_NO_DEVICE}) {
    EXPECT_EQ(driver.ToStatus(refused, "cuLaunchKernelEx").code(), kFailedPrecondition) << refused;
  }
}

TEST(CudaDriverTest, ErrorsNameCallAndCause) {
  CudaDriver driver;
  driver.GetErrorName = [](CUresult, const char** name) {
    *name = "CUDA_ERROR_INVALID_VALUE";
    return CUDA_SUCCESS;
  };
  driver.GetErrorString = [](CUresult, const char** text) {
    *text = "invalid argument";
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(driver.ToStatus(CUDA_ERROR_INVALID_VALUE, "cuMemFree(address)").message(),
            "cuMemFree: CUDA_ERROR_INVALID_VALUE: invalid argument");
}

}  // namespace
}  // namespace hone
