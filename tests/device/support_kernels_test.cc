// The measuring lane's CUDA kernels, compiled for the CPU device, against the host's loops: what a
// GPU fills, compares and finds must be what the CPU device and the fakes do.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/host_compiler.h"
#include "runtime/device/device_memory.h"
#include "runtime/device/host_elements.h"
#include "runtime/device/support_program.h"

namespace hone {
namespace {

constexpr DataType kTypes[] = {DataType::kF16,    DataType::kBF16, DataType::kF32, DataType::kF64,
                               DataType::kF8E4M3, DataType::kU8,   DataType::kI16, DataType::kI32,
                               DataType::kU64,    DataType::kBool};

template <typename T>
PackedArgument Pack(const T& value) {
  PackedArgument packed;
  packed.bytes.resize(sizeof(T));
  std::memcpy(packed.bytes.data(), &value, sizeof(T));
  return packed;
}

// As support_kernels.cu declares them.
struct Found {
  uint64_t mismatches = 0;
  uint64_t first = ~uint64_t{0};
  uint64_t abs_error = 0;
  uint64_t rel_error = 0;
};
struct SearchRange {
  uint64_t address;
  uint64_t bytes;
  uint64_t value;
};

class SupportKernelsTest : public testing::Test {
 protected:
  static const Artifact& Compiled() {
    static const auto& artifact = *new Artifact([] {
      Program program = SupportProgram("cpu");
      // Only a GPU has the timer that the pause waits for.
      program.source.resize(program.source.find("// Keeps the stream busy"));
      program.name_expressions = {"hone_fill", "hone_compare", "hone_find_byte_not",
                                  "hone_checksum"};
      const auto compiler = HostCompiler::Create({});
      const auto outcome = (*compiler)->Compile(program, {});
      if (!outcome.ok() || !outcome->artifact) {
        ADD_FAILURE() << outcome.status() << (outcome.ok() ? outcome->log : "");
        return Artifact();
      }
      return *outcome->artifact;
    }());
    return artifact;
  }

  void SetUp() override {
    auto module = device_->Load(Compiled());
    ASSERT_TRUE(module.ok()) << module.status();
    module_ = *std::move(module);
  }
  void Launch(const std::string& entry, std::vector<PackedArgument> arguments, unsigned rows = 1) {
    ResolvedLaunch launch;
    launch.steps.resize(1);
    launch.steps[0].symbol = Compiled().lowered_names.at(entry);
    launch.steps[0].grid = {3, rows, 1};
    launch.steps[0].block = {64, 1, 1};
    launch.steps[0].arguments = std::move(arguments);
    const absl::Status status = device_->Launch(*module_, launch);
    ASSERT_TRUE(status.ok()) << status;
  }
  template <typename T>
  T Read(uint64_t address) {
    T value;
    EXPECT_TRUE(device_->CopyToHost(&value, address, sizeof(T)).ok());
    return value;
  }
  DeviceAllocation Allocate(const void* data, size_t bytes, uint64_t offset = 0) {
    auto allocation = memory_.Allocate(static_cast<int64_t>(bytes + offset));
    EXPECT_TRUE(allocation.ok());
    EXPECT_TRUE(
        device_->CopyToDevice(allocation->address() + offset, data, static_cast<int64_t>(bytes))
            .ok());
    return *std::move(allocation);
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice();
  std::unique_ptr<LoadedModule> module_;
  DeviceMemory memory_{device_.get(), 0};
};

TEST_F(SupportKernelsTest, FillGivesTheHostsBits) {
  constexpr int64_t kElements = 1001;
  for (const DataType dtype : kTypes) {
    for (int kind = 0; kind <= static_cast<int>(InitKind::kZeros); ++kind) {
      const FillSpec spec{.kind = static_cast<InitKind>(kind),
                          .dtype = dtype,
                          .low = -2,
                          .high = 90,
                          .skew = 1.5,
                          .seed = 11};
      const auto bytes = static_cast<size_t>(kElements * SizeBytes(dtype));
      std::vector<char> filled(bytes, 1), expected(bytes);
      const DeviceAllocation buffer = Allocate(filled.data(), bytes);
      Launch("hone_fill", {Pack(buffer.address()), Pack(ToParameters(spec, kElements))});
      ASSERT_TRUE(
          device_->CopyToHost(filled.data(), buffer.address(), static_cast<int64_t>(bytes)).ok());
      FillElements(expected.data(), kElements, spec);
      EXPECT_EQ(filled, expected) << Name(dtype) << " init " << kind;
    }
  }
}

TEST_F(SupportKernelsTest, CompareFindsWhatTheHostFinds) {
  constexpr int64_t kElements = 1003;
  for (const DataType dtype : kTypes) {
    const auto bytes = static_cast<size_t>(kElements * SizeBytes(dtype));
    std::vector<char> reference(bytes);
    FillElements(reference.data(), kElements, {.dtype = dtype, .seed = 1});
    std::vector<char> values = reference;
    for (const size_t at : {bytes / 3, bytes / 2, bytes - 1}) values[at] ^= 0x11;
    const Tolerance tolerance{.atol = 1e-6, .rtol = 1e-6};
    const CompareResult expected =
        CompareElements(values.data(), reference.data(), kElements, dtype, tolerance);
    for (const uint64_t offset : {uint64_t{0}, static_cast<uint64_t>(SizeBytes(dtype))}) {
      const DeviceAllocation a = Allocate(values.data(), bytes, offset);
      const DeviceAllocation b = Allocate(reference.data(), bytes);
      const Found nothing;
      const DeviceAllocation out = Allocate(&nothing, sizeof(nothing));
      Launch("hone_compare", {Pack(a.address() + offset), Pack(b.address()), Pack(kElements),
                              Pack(ToParameters(dtype, tolerance)), Pack(out.address())});
      const Found found = Read<Found>(out.address());
      EXPECT_EQ(static_cast<int64_t>(found.mismatches), expected.mismatches) << Name(dtype);
      EXPECT_EQ(static_cast<int64_t>(found.first), expected.first_mismatch) << Name(dtype);
      EXPECT_EQ(element::BitsDouble(found.abs_error), expected.max_abs_error) << Name(dtype);
      EXPECT_EQ(element::BitsDouble(found.rel_error), expected.max_rel_error) << Name(dtype);
    }
  }
}

TEST_F(SupportKernelsTest, SearchAnswersForEveryRange) {
  std::vector<unsigned char> data(10'000, 0xb7);
  data[7'001] = 0;
  const DeviceAllocation buffer = Allocate(data.data(), data.size());
  const uint64_t at = buffer.address();
  const SearchRange ranges[] = {
      {at, 7'001, 0xb7}, {at + 3, 9'000, 0xb7}, {at, 0, 1}, {at + 9, 1, 1}};
  const uint64_t none[] = {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}};
  const DeviceAllocation searched = Allocate(ranges, sizeof(ranges));
  const DeviceAllocation first = Allocate(none, sizeof(none));
  Launch("hone_find_byte_not", {Pack(searched.address()), Pack(first.address())}, 4);
  EXPECT_EQ(Read<uint64_t>(first.address()), ~uint64_t{0});
  EXPECT_EQ(Read<uint64_t>(first.address() + 8), 6'998u);
  EXPECT_EQ(Read<uint64_t>(first.address() + 16), ~uint64_t{0});
  EXPECT_EQ(Read<uint64_t>(first.address() + 24), 0u);
}

TEST_F(SupportKernelsTest, ChecksumIsTheHosts) {
  std::vector<char> data(5'003);
  FillElements(data.data(), 5'003, {.dtype = DataType::kU8, .seed = 9});
  for (const uint64_t offset : {0u, 1u, 4u}) {
    const DeviceAllocation buffer = Allocate(data.data(), data.size(), offset);
    const uint64_t zero = 0;
    const DeviceAllocation sum = Allocate(&zero, sizeof(zero));
    Launch("hone_checksum",
           {Pack(buffer.address() + offset), Pack(uint64_t{5'003}), Pack(sum.address())});
    EXPECT_EQ(Read<uint64_t>(sum.address()), AddChecksum(0, data.data(), 5'003, 0));
  }
}

}  // namespace
}  // namespace hone
