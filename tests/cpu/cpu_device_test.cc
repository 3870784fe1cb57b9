#include "runtime/cpu/cpu_device.h"

#include <cstring>
#include <thread>
#include <vector>

#include "runtime/cpu/guarded_memory.h"
#include "tests/cpu/cpu_kernel.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;

constexpr char kScale[] = R"(
  __global__ void scale(float* data, long long n, float factor) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= factor;
  })";

class CpuDeviceTest : public testing::Test {
 protected:
  template <typename T>
  static PackedArgument Pack(T value) {
    PackedArgument packed;
    packed.bytes.resize(sizeof value);
    std::memcpy(packed.bytes.data(), &value, sizeof value);
    return packed;
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice();
};

TEST_F(CpuDeviceTest, RunsACompiledArtifactOnItsMemory) {
  const auto outcome = CompileForCpu(kScale, {"scale"});
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->artifact.has_value()) << outcome->log;
  const auto module = device_->Load(*outcome->artifact);
  ASSERT_THAT(module, IsOk());

  constexpr int64_t kCount = 10'000;
  const auto address = device_->Allocate(kCount * 4);
  ASSERT_THAT(address, IsOk());
  ASSERT_THAT(device_->Fill(*address, kCount, {.kind = InitKind::kIota, .dtype = DataType::kF32}),
              IsOk());
  ResolvedStep poison;
  poison.memset_address = *address;
  poison.memset_bytes = 4;
  poison.memset_value = 0;
  ResolvedStep step;
  step.symbol = outcome->artifact->lowered_names.at("scale");
  step.grid = {40, 1, 1};
  step.block = {256, 1, 1};
  step.arguments = {Pack(*address), Pack(int64_t{kCount}), Pack(2.0f)};
  ASSERT_THAT(device_->Launch(**module, {{step, poison}, {}}), IsOk());
  ASSERT_THAT(device_->FlushCache(), IsOk());
  const auto nanoseconds = device_->TimeNs(**module, {{step}, {}});
  ASSERT_THAT(nanoseconds, IsOk());
  EXPECT_GT(*nanoseconds, 0);
  ASSERT_THAT(device_->Synchronize(), IsOk());

  std::vector<float> values(kCount);
  ASSERT_THAT(device_->CopyToHost(values.data(), *address, kCount * 4), IsOk());
  for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(values[i], static_cast<float>(4 * i));
  device_->Free(*address);
}

TEST_F(CpuDeviceTest, ComparesAndSearchesMemory) {
  const uint64_t a = device_->Allocate(400).value();
  const uint64_t b = device_->Allocate(400).value();
  ASSERT_THAT(device_->Memset(a, 0xff, 400), IsOk());
  EXPECT_THAT(device_->FindByteNot(a, 0xff, 400), IsOkAndHolds(-1));
  const FillSpec fill{.kind = InitKind::kNormal, .dtype = DataType::kF32, .seed = 7};
  ASSERT_THAT(device_->Fill(a, 100, fill), IsOk());
  ASSERT_THAT(device_->CopyOnDevice(b, a, 400), IsOk());
  ASSERT_THAT(device_->CopyToDevice(b + 40, "\0\0\x80\x7f", 4), IsOk());
  const auto result = device_->Compare(b, a, 100, DataType::kF32, {.exact = true});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->mismatches, 1);
  EXPECT_EQ(result->first_mismatch, 10);
}

TEST_F(CpuDeviceTest, RefusesMemoryThatIsNotItsOwn) {
  const uint64_t address = device_->Allocate(100).value();
  const absl::StatusCode invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(device_->Memset(address, 0, 101), StatusIs(invalid, HasSubstr("101 bytes")));
  EXPECT_THAT(device_->Memset(address + 50, 0, 51), StatusIs(invalid, HasSubstr("51 bytes")));
  EXPECT_THAT(device_->Memset(address - 1, 0, 1), StatusIs(invalid, HasSubstr("1 bytes")));
  EXPECT_THAT(device_->Memset(address + 50, 0, 50), IsOk());
  device_->Free(address);
  EXPECT_THAT(device_->Memset(address, 0, 1), StatusIs(invalid, HasSubstr("does not lie")));
}

TEST_F(CpuDeviceTest, EmptyAllocationsAreValidAndDistinct) {
  const auto a = device_->Allocate(0);
  const auto b = device_->Allocate(0);
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  EXPECT_NE(*a, *b);
}

TEST_F(CpuDeviceTest, AllocationsBeyondMemoryNameBothSizes) {
  const auto available = device_->AvailableBytes();
  ASSERT_THAT(available, IsOk());
  EXPECT_GT(*available, 0);
  EXPECT_THAT(
      device_->Allocate(int64_t{1} << 55),
      StatusIs(absl::StatusCode::kResourceExhausted,
               testing::AllOf(HasSubstr("needed 36028797018963968"), HasSubstr("available"))));
}

TEST_F(CpuDeviceTest, SaysWhatItIs) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.architecture, "cpu");
  EXPECT_EQ(info.fingerprint.kind, "cpu");
  EXPECT_THAT(info.fingerprint.architecture, HasSubstr("x86-64"));
  EXPECT_GE(info.fingerprint.sm_count, 1);
  EXPECT_GT(info.fingerprint.memory_bytes, 0);
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.limits.max_threads_per_block, 1024);
  EXPECT_EQ(info.limits.shared_bytes_per_block_max, 232'448);
  EXPECT_EQ(MakeCpuDevice()->info().fingerprint, info.fingerprint);
}

TEST_F(CpuDeviceTest, LoadsOnlyHostBinaries) {
  Artifact cubin;
  cubin.format = ArtifactFormat::kCubin;
  cubin.architecture = "sm_90a";
  EXPECT_THAT(device_->Load(cubin), StatusIs(absl::StatusCode::kFailedPrecondition,
                                             HasSubstr("HOST_ELF, not CUBIN for sm_90a")));
}

// scenario P25, in the process that the worker would be
TEST_F(CpuDeviceTest, AnAccessFarOutOfBoundsEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const uint64_t address = device_->Allocate(4096).value();
  const auto touch = [](uint64_t at) { *reinterpret_cast<volatile char*>(at) = 1; };
  EXPECT_DEATH(touch(address + (uint64_t{1} << 31)), "");
  EXPECT_DEATH(touch(address - (uint64_t{1} << 31)), "");
  EXPECT_DEATH(touch(address + 4096), "");
}

TEST(CpuLauncherTest, LaunchesOfSeveralThreadsDoNotMix) {
  CpuKernel kernel(kScale, "scale");
  ASSERT_THAT(kernel.status(), IsOk());
  CpuKernel other(kScale, "scale");
  const auto run = [](CpuKernel& mine) {
    std::vector<float> data(5'000, 1.0f);
    mine.Grid(20).Block(256);
    for (int i = 0; i < 10; ++i) {
      ASSERT_THAT(mine.Launch(data, int64_t{5'000}, 2.0f), IsOk());
    }
    EXPECT_THAT(data, testing::Each(1024.0f));
  };
  std::thread thread([&] { run(other); });
  run(kernel);
  thread.join();
}

}  // namespace
}  // namespace hone
