// Served kernels launched by position and by name on a CUDA device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/hone/client.h"
#include "runtime/launch/cuda_driver.h"
#include "tests/gpu/daemon_on_gpu.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;

constexpr size_t kWords = 20'000;  // of each buffer on the device
constexpr uint32_t kPoison = 0xABABABAB;

class GpuLaunchPlanTest : public DaemonOnGpuTest {
 protected:
  void SetUp() override {
    DaemonOnGpuTest::SetUp();
    if (IsSkipped()) return;
    const auto driver = CudaDriver::Get();
    ASSERT_THAT(driver, IsOk());
    driver_ = *driver;
    CUdevice device = 0;
    ASSERT_EQ(driver_->DeviceGet(&device, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver_->DevicePrimaryCtxRetain(&context_, device), CUDA_SUCCESS);
    ASSERT_EQ(driver_->CtxSetCurrent(context_), CUDA_SUCCESS);
  }

  static Kernel Copy1d(const std::string& type) {
    const auto client = Client::Connect({.endpoint = "unix:" + daemon_->socket_path()});
    EXPECT_THAT(client, IsOk());
    auto kernel = client->GetKernel({.template_name = "copy_1d",
                                     .params = {{"T", type}, {"n", int64_t{16384}}},
                                     .max_wait = absl::Minutes(5)});
    EXPECT_THAT(kernel, IsOk());
    return *std::move(kernel);
  }

  CUdeviceptr Allocate() const {
    CUdeviceptr address = 0;
    EXPECT_EQ(driver_->MemAlloc(&address, kWords * 4), CUDA_SUCCESS);
    return address;
  }
  void Fill(CUdeviceptr address, const std::vector<uint32_t>& words) const {
    EXPECT_EQ(driver_->MemcpyHtoD(address, words.data(), words.size() * 4), CUDA_SUCCESS);
  }
  std::vector<uint32_t> Read(CUdeviceptr address) const {
    std::vector<uint32_t> words(kWords);
    EXPECT_EQ(driver_->MemcpyDtoH(words.data(), address, kWords * 4), CUDA_SUCCESS);
    return words;
  }
  static std::vector<uint32_t> Counting() {
    std::vector<uint32_t> words(kWords);
    std::iota(words.begin(), words.end(), 1u);
    return words;
  }
  // What dst holds after a copy of n words to an offset of as many words on both sides.
  static std::vector<uint32_t> Copied(int64_t n, size_t offset) {
    std::vector<uint32_t> words(kWords, kPoison);
    const std::vector<uint32_t> source = Counting();
    std::copy_n(source.begin() + static_cast<ptrdiff_t>(offset), n,
                words.begin() + static_cast<ptrdiff_t>(offset));
    return words;
  }

  const CudaDriver* driver_ = nullptr;
  CUcontext context_ = nullptr;
};

// scenario P17: specialised on size and alignment, then launched with others.
TEST_F(GpuLaunchPlanTest, IsRightAtEverySizeAndOffsetByPositionAndByName) {
  const Kernel kernel = Copy1d("F32");
  const CUdeviceptr dst = Allocate(), src = Allocate();
  Fill(src, Counting());
  for (const int64_t n : {0, 1, 255, 1024, 16383, 16384, 16385}) {
    for (const size_t offset : {0, 1, 2, 4}) {
      for (const bool by_position : {true, false}) {
        SCOPED_TRACE(absl::StrCat("n ", n, " offset ", offset, " by position ", by_position));
        Fill(dst, std::vector<uint32_t>(kWords, kPoison));
        const PlanBuffer buffers[] = {{.address = dst + offset * 4}, {.address = src + offset * 4}};
        const PlanInputs inputs{.sizes = &n, .buffers = buffers};
        ASSERT_THAT(by_position ? kernel.Launch(inputs, nullptr)
                                : kernel.Launch(ArgumentsOf(kernel.names(), inputs), nullptr),
                    IsOk());
        EXPECT_EQ(Read(dst), Copied(n, offset));
      }
    }
  }
  const int64_t n = 16384;
  const PlanBuffer overlapping[] = {{.address = src + 16}, {.address = src}};
  EXPECT_THAT(kernel.Launch(PlanInputs{.sizes = &n, .buffers = overlapping}, nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("overlap and must not")));
}

TEST_F(GpuLaunchPlanTest, ACaptureNeedsPrepareAndItsGraphReplays) {
  const Kernel kernel = Copy1d("U8");
  const CUdeviceptr dst = Allocate(), src = Allocate();
  Fill(src, Counting());
  Fill(dst, std::vector<uint32_t>(kWords, kPoison));
  const int64_t n = 4096;
  const PlanBuffer buffers[] = {{.address = dst}, {.address = src}};
  const PlanInputs inputs{.sizes = &n, .buffers = buffers};
  CUstream stream = nullptr;
  ASSERT_EQ(driver_->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  for (const bool prepared : {false, true}) {
    if (prepared) {
      ASSERT_THAT(kernel.Prepare(), IsOk());
    }
    CUgraph graph = nullptr;
    ASSERT_EQ(driver_->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    const absl::Status launched = kernel.Launch(inputs, stream);
    ASSERT_EQ(driver_->StreamEndCapture(stream, &graph), CUDA_SUCCESS) << "the capture must hold";
    if (!prepared) {
      EXPECT_THAT(launched, StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("call Prepare before capture")));
      driver_->GraphDestroy(graph);
      continue;
    }
    ASSERT_THAT(launched, IsOk());
    CUgraphExec executable = nullptr;
    ASSERT_EQ(driver_->GraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
    for (int replay = 0; replay < 3; ++replay) {
      Fill(dst, std::vector<uint32_t>(kWords, kPoison));
      ASSERT_EQ(driver_->GraphLaunch(executable, stream), CUDA_SUCCESS);
      ASSERT_EQ(driver_->StreamSynchronize(stream), CUDA_SUCCESS);
      EXPECT_EQ(Read(dst), Copied(n / 4, 0));
    }
    driver_->GraphExecDestroy(executable);
    driver_->GraphDestroy(graph);
  }
  driver_->StreamDestroy(stream);
}

// None of them prepared it: they load it together, too.
TEST_F(GpuLaunchPlanTest, EightThreadsLaunchOneKernelAtOnce) {
  const Kernel kernel = Copy1d("F16");
  const CUdeviceptr src = Allocate();
  Fill(src, Counting());
  std::vector<CUdeviceptr> outputs;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t) {
    outputs.push_back(Allocate());
    Fill(outputs.back(), std::vector<uint32_t>(kWords, kPoison));
    threads.emplace_back([&, t, dst = outputs.back()] {
      ASSERT_EQ(driver_->CtxSetCurrent(context_), CUDA_SUCCESS);
      CUstream stream = nullptr;
      ASSERT_EQ(driver_->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
      for (int i = 0; i < 500; ++i) {
        const int64_t n = static_cast<int64_t>(t + 1) * 1000 + (i == 499 ? 0 : i % 7 - 10);
        const PlanBuffer buffers[] = {{.address = dst}, {.address = src}};
        ASSERT_THAT(kernel.Launch(PlanInputs{.sizes = &n, .buffers = buffers}, stream), IsOk());
      }
      EXPECT_EQ(driver_->StreamSynchronize(stream), CUDA_SUCCESS);
      driver_->StreamDestroy(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < 8; ++t) {
    EXPECT_EQ(Read(outputs[t]), Copied(static_cast<int64_t>(t + 1) * 500, 0)) << "thread " << t;
  }
}

}  // namespace
}  // namespace hone
