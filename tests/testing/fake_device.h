// A Device in host memory that runs functions instead of kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/device/device.h"

namespace hone {

// One step as a fake kernel sees it.
struct FakeLaunch {
  std::string entry;  // the name expression, "copy_1d<float, 256, 1, 2>"
  const ResolvedStep* step = nullptr;

  // The index-th argument.
  template <typename T>
  T argument(size_t index) const {
    T value{};
    const PackedArgument& packed = step->arguments.at(index);
    std::memcpy(&value, packed.bytes.data(), std::min(sizeof(T), packed.bytes.size()));
    return value;
  }
};
using FakeKernel = std::function<void(const FakeLaunch&)>;

// Loads what FakeCompiler makes. Faults are scripted by a part of the entry's text ("<float, 256").
// Memory comes from the heap, so that sanitizers see accesses beyond the guard zones. Not
// thread-safe.
class FakeDevice : public Device {
 public:
  explicit FakeDevice(DeviceInfo info);
  FakeDevice();
  ~FakeDevice() override;

  // What entries with this name (the text before '<') do. Launching any other is refused.
  void SetKernel(const std::string& name, FakeKernel kernel);
  // dst, src, n: copies n elements.
  static FakeKernel Copy(int64_t element_bytes);

  // Samples of TimeNs, repeated from the start; without, 1,000 ns.
  void SetTiming(const std::string& part, std::vector<double> samples_ns);
  // Changes the first byte of its first argument's memory after it ran.
  void CorruptOutputFor(const std::string& part);
  // Writes one byte at this offset from its first argument after it ran.
  void WriteOutOfBoundsFor(const std::string& part, int64_t offset);
  // The launch is accepted and the device dies with it.
  void AbortFor(const std::string& part);
  void RefuseLaunchFor(const std::string& part, absl::Status status);
  // Never returns from Launch.
  void HangFor(const std::string& part);
  void SetMemoryBytes(int64_t bytes) { memory_bytes_ = bytes; }
  void SetFlushBytes(int64_t bytes) { flush_bytes_ = bytes; }
  // A sequence takes the samples of its launches, added up.
  void MakeSequences() { makes_sequences_ = true; }

  int64_t allocated_bytes() const { return allocated_bytes_; }
  int allocations() const { return static_cast<int>(memory_.size()); }
  int modules() const { return *modules_; }
  int flushes() const { return flushes_; }
  int fills() const { return fills_; }
  // Entries in the order of their launches.
  const std::vector<std::string>& launched() const { return launched_; }

  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<uint64_t> Allocate(int64_t bytes) override;
  void Free(uint64_t address) override;
  absl::StatusOr<int64_t> AvailableBytes() override;
  absl::Status CopyToDevice(uint64_t to, const void* from, int64_t bytes) override;
  absl::Status CopyToHost(void* to, uint64_t from, int64_t bytes) override;
  absl::Status CopyOnDevice(uint64_t to, uint64_t from, int64_t bytes) override;
  absl::Status Memset(uint64_t address, int value, int64_t bytes) override;
  absl::Status Fill(uint64_t address, int64_t elements, const FillSpec& spec) override;
  absl::StatusOr<CompareResult> Compare(uint64_t values, uint64_t reference, int64_t elements,
                                        DataType dtype, const Tolerance& tolerance) override;
  absl::StatusOr<int64_t> FindByteNot(uint64_t address, int value, int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<LoadedModule>> Load(const Artifact& artifact) override;
  absl::Status Launch(LoadedModule& module, const ResolvedLaunch& launch) override;
  absl::Status Synchronize() override;
  absl::Status FlushCache() override;
  int64_t flush_bytes() const override { return flush_bytes_; }
  void ReleaseFlush() override;
  absl::StatusOr<double> TimeNs(LoadedModule& module, const ResolvedLaunch& launch) override;
  bool makes_sequences() const override { return makes_sequences_; }
  absl::StatusOr<std::unique_ptr<LaunchSequence>> MakeSequence(
      LoadedModule& module, const std::vector<ResolvedLaunch>& launches) override;
  absl::StatusOr<double> TimeSequenceNs(LaunchSequence& sequence) override;
  DeviceCondition Condition() override {
    return {.clock_mhz = 1980, .memory_clock_mhz = 3201, .slowed_down = {}, .other_processes = 0};
  }

 private:
  struct Script {
    std::vector<double> samples_ns;
    size_t next_sample = 0;
    bool corrupt = false;
    bool out_of_bounds = false;
    int64_t offset = 0;
    bool abort = false;
    bool hang = false;
    absl::Status refuse;
  };
  class Module;
  class Sequence;

  Script* FindScript(const std::string& entry, const std::function<bool(const Script&)>& with);
  absl::Status RunStep(const Module& module, const ResolvedStep& step);
  absl::Status Alive() const;

  const DeviceInfo info_;
  std::map<std::string, FakeKernel> kernels_;
  std::map<std::string, Script> scripts_;
  std::map<uint64_t, std::pair<std::unique_ptr<char[]>, int64_t>> memory_;
  int64_t memory_bytes_ = int64_t{1} << 30;
  int64_t allocated_bytes_ = 0;
  int64_t flush_bytes_ = 0;
  uint64_t flush_address_ = 0;
  std::shared_ptr<int> modules_ = std::make_shared<int>(0);
  int flushes_ = 0;
  int fills_ = 0;
  std::vector<std::string> launched_;
  bool dead_ = false;
  bool makes_sequences_ = false;
};

}  // namespace hone
