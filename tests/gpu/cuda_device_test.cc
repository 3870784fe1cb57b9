#include "runtime/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error_info.h"
#include "runtime/device/device_memory.h"
#include "runtime/device/host_elements.h"
#include "runtime/device/support_program.h"
#include "tests/gpu/gpu_support.h"

namespace hone {
namespace {

constexpr DataType kAllTypes[] = {
    DataType::kF16,    DataType::kBF16, DataType::kF32, DataType::kF64, DataType::kF8E4M3,
    DataType::kF8E5M2, DataType::kI8,   DataType::kU8,  DataType::kI16, DataType::kU16,
    DataType::kI32,    DataType::kU32,  DataType::kI64, DataType::kU64, DataType::kBool};

// One context for all tests: making one takes a third of a second.
Device* SharedDevice() {
  static Device* const device = [] {
    auto made = MakeCudaDevice(0, CompileForGpu(SupportProgram("")));
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->release() : nullptr;
  }();
  return device;
}

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    HONE_SKIP_WITHOUT_GPU();
    device_ = SharedDevice();
    ASSERT_NE(device_, nullptr);
    memory_ = std::make_unique<DeviceMemory>(device_, 0);
  }
  DeviceAllocation Allocate(int64_t bytes) {
    auto allocation = memory_->Allocate(bytes);
    EXPECT_TRUE(allocation.ok()) << allocation.status();
    return allocation.ok() ? *std::move(allocation) : DeviceAllocation();
  }
  std::vector<char> Read(uint64_t address, int64_t bytes) {
    std::vector<char> data(static_cast<size_t>(bytes));
    EXPECT_TRUE(device_->CopyToHost(data.data(), address, bytes).ok());
    return data;
  }

  Device* device_ = nullptr;
  std::unique_ptr<DeviceMemory> memory_;
};

TEST_F(CudaDeviceTest, DescribesItselfByTheDriversMaxima) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.fingerprint.kind, "cuda");
  EXPECT_GT(info.fingerprint.sm_count, 0);
  EXPECT_GT(info.fingerprint.clock_khz, 100'000);
  EXPECT_GT(info.fingerprint.l2_bytes, 0);
  EXPECT_GT(info.fingerprint.memory_bytes, 0);
  EXPECT_GE(info.limits.shared_bytes_per_block_max, 48 << 10);
  EXPECT_EQ(info.limits.warp_size, 32);
  EXPECT_GE(info.driver_version, 12000);
  EXPECT_EQ(device_->flush_bytes(), 2 * info.fingerprint.l2_bytes);
}

TEST_F(CudaDeviceTest, FillsEveryTypeAsTheHostDoes) {
  constexpr int64_t kElements = 5000;
  for (const DataType dtype : kAllTypes) {
    for (int kind = 0; kind <= static_cast<int>(InitKind::kZeros); ++kind) {
      const FillSpec spec{.kind = static_cast<InitKind>(kind),
                          .dtype = dtype,
                          .low = -2,
                          .high = 90,
                          .skew = 1.5,
                          .seed = 11};
      const int64_t bytes = kElements * SizeBytes(dtype);
      const DeviceAllocation buffer = Allocate(bytes);
      ASSERT_TRUE(device_->Fill(buffer.address(), kElements, spec).ok());
      std::vector<char> expected(static_cast<size_t>(bytes));
      FillElements(expected.data(), kElements, spec);
      EXPECT_TRUE(Read(buffer.address(), bytes) == expected) << Name(dtype) << " init " << kind;
    }
  }
}

TEST_F(CudaDeviceTest, ComparesAsTheHostDoesAtEveryAlignment) {
  constexpr int64_t kElements = 100'003;
  for (const DataType dtype : kAllTypes) {
    const int64_t bytes = kElements * SizeBytes(dtype);
    std::vector<char> reference(static_cast<size_t>(bytes));
    FillElements(reference.data(), kElements, {.dtype = dtype, .seed = 1});
    std::vector<char> values = reference;
    for (const int64_t at : {int64_t{0}, bytes / 3, bytes - 1}) {
      values[static_cast<size_t>(at)] = static_cast<char>(values[static_cast<size_t>(at)] ^ 0x11);
    }
    const Tolerance tolerance{.atol = 1e-6, .rtol = 1e-6};
    const CompareResult expected =
        CompareElements(values.data(), reference.data(), kElements, dtype, tolerance);
    for (const int64_t offset : {int64_t{0}, int64_t{SizeBytes(dtype)}}) {
      const DeviceAllocation a = Allocate(bytes + 64), b = Allocate(bytes + 64);
      const uint64_t at = a.address() + static_cast<uint64_t>(offset);
      ASSERT_TRUE(device_->CopyToDevice(at, values.data(), bytes).ok());
      ASSERT_TRUE(device_->CopyToDevice(b.address(), reference.data(), bytes).ok());
      const auto result = device_->Compare(at, b.address(), kElements, dtype, tolerance);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->mismatches, expected.mismatches) << Name(dtype);
      EXPECT_EQ(result->first_mismatch, expected.first_mismatch) << Name(dtype);
      EXPECT_EQ(result->max_abs_error, expected.max_abs_error) << Name(dtype);
      EXPECT_EQ(result->max_rel_error, expected.max_rel_error) << Name(dtype);
    }
  }
}

TEST_F(CudaDeviceTest, FindsOtherBytesInSeveralRangesAtOnce) {
  const DeviceAllocation buffer = Allocate(1 << 20);
  ASSERT_TRUE(device_->Memset(buffer.address(), 0xb7, 1 << 20).ok());
  ASSERT_TRUE(device_->Memset(buffer.address() + 70'001, 0, 5).ok());
  const auto found = device_->FindByteNotIn({{buffer.address(), 70'001, 0xb7},
                                             {buffer.address() + 3, 100'000, 0xb7},
                                             {buffer.address(), 0, 1},
                                             {buffer.address() + 9, 1, 1}});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, testing::ElementsAre(-1, 69'998, -1, 0));
}

TEST_F(CudaDeviceTest, ChecksumsAreTheHosts) {
  constexpr int64_t kBytes = 1'000'003;
  std::vector<char> data(kBytes);
  FillElements(data.data(), kBytes, {.dtype = DataType::kU8, .seed = 9});
  for (const uint64_t offset : {0u, 1u, 4u}) {
    const DeviceAllocation buffer = Allocate(kBytes + 8);
    ASSERT_TRUE(device_->CopyToDevice(buffer.address() + offset, data.data(), kBytes).ok());
    const auto sum = device_->Checksum(buffer.address() + offset, kBytes);
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(*sum, AddChecksum(0, data.data(), kBytes, 0));
  }
}

TEST_F(CudaDeviceTest, RunningOutOfMemoryNamesBothFigures) {
  const auto allocation = memory_->Allocate(int64_t{1} << 45);
  EXPECT_EQ(allocation.status().code(), absl::StatusCode::kResourceExhausted);
  const auto info = ErrorInfoOf(allocation.status());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->needed, int64_t{1} << 45);
  EXPECT_GT(info->available, 0);
  EXPECT_TRUE(memory_->Allocate(0).ok());
}

TEST_F(CudaDeviceTest, GivesItsFlushBufferBack) {
  const auto before = device_->AvailableBytes();
  ASSERT_TRUE(device_->FlushCache().ok());
  ASSERT_TRUE(device_->Synchronize().ok());
  device_->ReleaseFlush();
  const auto after = device_->AvailableBytes();
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(*before, *after);
}

// A launch of nothing takes the device a few microseconds; the host's share must not be in it, and
// a kernel that takes a while must take it.
TEST_F(CudaDeviceTest, TimesTheKernelAndNotItsLaunch) {
  Program program;
  program.name = "time.cu";
  program.source = R"(
extern "C" __global__ void nothing() {}
extern "C" __global__ void spin(long long ns) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - begin < ns);
})";
  auto module = device_->Load(CompileForGpu(program));
  ASSERT_TRUE(module.ok()) << module.status();
  ResolvedLaunch nothing;
  nothing.steps.resize(1);
  nothing.steps[0].symbol = "nothing";
  ResolvedLaunch spin;
  spin.steps.resize(1);
  spin.steps[0].symbol = "spin";
  const int64_t duration_ns = 300'000;
  PackedArgument argument;
  argument.bytes.resize(sizeof(duration_ns));
  std::memcpy(argument.bytes.data(), &duration_ns, sizeof(duration_ns));
  spin.steps[0].arguments = {argument};

  std::vector<double> short_ns, long_ns;
  for (int i = 0; i < 21; ++i) {
    ASSERT_TRUE(device_->FlushCache().ok());
    const auto a = device_->TimeNs(**module, nothing);
    const auto b = device_->TimeNs(**module, spin);
    ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
    short_ns.push_back(*a);
    long_ns.push_back(*b);
  }
  std::sort(short_ns.begin(), short_ns.end());
  std::sort(long_ns.begin(), long_ns.end());
  EXPECT_LT(short_ns[10], 6'000);
  EXPECT_GE(long_ns[10], 295'000);
  EXPECT_LT(long_ns[10], 320'000);

  // In a sequence neither the host nor a pair of events stands between the launches.
  const auto nothings = device_->MakeSequence(**module, std::vector<ResolvedLaunch>(20, nothing));
  const auto spins = device_->MakeSequence(**module, std::vector<ResolvedLaunch>(4, spin));
  ASSERT_TRUE(nothings.ok() && spins.ok()) << nothings.status() << spins.status();
  std::vector<double> many_ns;
  for (int i = 0; i < 21; ++i) {
    const auto many = device_->TimeSequenceNs(**nothings);
    ASSERT_TRUE(many.ok()) << many.status();
    many_ns.push_back(*many / 20);
  }
  std::sort(many_ns.begin(), many_ns.end());
  EXPECT_LT(many_ns[10], short_ns[10]);
  const auto four = device_->TimeSequenceNs(**spins);
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_GE(*four, 4 * 295'000);
  EXPECT_LT(*four, 4 * 320'000);
}

TEST_F(CudaDeviceTest, ASequenceRunsItsLaunchesInOrder) {
  Program program;
  program.name = "order.cu";
  program.source =
      R"(extern "C" __global__ void next(unsigned* x, unsigned digit) { *x = *x * 10 + digit; })";
  auto module = device_->Load(CompileForGpu(program));
  ASSERT_TRUE(module.ok()) << module.status();
  const auto x = device_->Allocate(4);
  ASSERT_TRUE(x.ok()) << x.status();
  std::vector<ResolvedLaunch> launches(5);
  for (unsigned i = 0; i < 5; ++i) {
    launches[i].steps.resize(1);
    launches[i].steps[0].symbol = "next";
    launches[i].steps[0].arguments.resize(2);
    launches[i].steps[0].arguments[0].bytes.resize(8);
    std::memcpy(launches[i].steps[0].arguments[0].bytes.data(), &*x, 8);
    launches[i].steps[0].arguments[1].bytes.resize(4);
    const unsigned digit = i + 1;
    std::memcpy(launches[i].steps[0].arguments[1].bytes.data(), &digit, 4);
  }
  const auto sequence = device_->MakeSequence(**module, launches);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(device_->Memset(*x, 0, 4).ok());
    ASSERT_TRUE(device_->TimeSequenceNs(**sequence).ok());
    unsigned value = 0;
    ASSERT_TRUE(device_->CopyToHost(&value, *x, 4).ok());
    EXPECT_EQ(value, 12345u);
  }
  device_->Free(*x);
}

TEST_F(CudaDeviceTest, AnArtifactForAnotherDeviceIsRefused) {
  Artifact artifact;
  artifact.format = ArtifactFormat::kHostElf;
  artifact.bytes = "\177ELF";
  EXPECT_EQ(device_->Load(artifact).status().code(), absl::StatusCode::kFailedPrecondition);
  artifact.format = ArtifactFormat::kCubin;
  EXPECT_EQ(device_->Load(artifact).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CudaDeviceTest, ADeviceThatIsNotThereIsRefusedWithTheNumberThereIs) {
  const auto made = MakeCudaDevice(99, Artifact());
  EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(made.status().message()),
              testing::HasSubstr("no CUDA device 99: this process sees "));
}

// scenario P34 and DESIGN: never joins another process's MPS
TEST_F(CudaDeviceTest, AnMpsEnvironmentIsRefusedByName) {
  ASSERT_EQ(setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50", 1), 0);
  const auto made = MakeCudaDevice(0, Artifact());
  unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(made.status().message()),
              testing::HasSubstr("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"));
}

}  // namespace
}  // namespace hone
