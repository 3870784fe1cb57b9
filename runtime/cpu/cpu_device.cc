#include "runtime/cpu/cpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/available_memory.h"
#include "runtime/base/status_macros.h"
#include "runtime/cpu/cpu_facts.h"
#include "runtime/cpu/guarded_memory.h"
#include "runtime/device/host_elements.h"
#include "runtime/launch/cpu_launcher.h"

namespace hone {
namespace {

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

class CpuLoadedModule : public LoadedModule {
 public:
  explicit CpuLoadedModule(std::unique_ptr<CpuModule> loaded) : module(std::move(loaded)) {}
  const std::unique_ptr<CpuModule> module;
};

class CpuDevice : public Device {
 public:
  CpuDevice() : info_(ReadCpuInfo()) {
    // Twice the last level cache, so that what it holds is replaced whatever its policy; some
    // machines report a whole socket's cache, of which a core fills only a part.
    constexpr int64_t kMin = 8 << 20;
    constexpr int64_t kMax = 64 << 20;
    flush_.resize(static_cast<size_t>(std::clamp(2 * LastLevelCacheBytes(), kMin, kMax)));
  }

  const DeviceInfo& info() const override { return info_; }

  absl::StatusOr<uint64_t> Allocate(int64_t bytes) override { return memory_.Allocate(bytes); }
  void Free(uint64_t address) override { memory_.Free(address); }
  absl::StatusOr<int64_t> AvailableBytes() override { return AvailableMemoryBytes(); }

  absl::Status CopyToDevice(uint64_t to, const void* from, int64_t bytes) override {
    HONE_RETURN_IF_ERROR(memory_.Check(to, bytes));
    if (bytes > 0) std::memcpy(Pointer(to), from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status CopyToHost(void* to, uint64_t from, int64_t bytes) override {
    HONE_RETURN_IF_ERROR(memory_.Check(from, bytes));
    if (bytes > 0) std::memcpy(to, Pointer(from), static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status CopyOnDevice(uint64_t to, uint64_t from, int64_t bytes) override {
    HONE_RETURN_IF_ERROR(memory_.Check(to, bytes));
    HONE_RETURN_IF_ERROR(memory_.Check(from, bytes));
    if (bytes > 0) std::memmove(Pointer(to), Pointer(from), static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status Memset(uint64_t address, int value, int64_t bytes) override {
    HONE_RETURN_IF_ERROR(memory_.Check(address, bytes));
    if (bytes > 0) std::memset(Pointer(address), value, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status Fill(uint64_t address, int64_t elements, const FillSpec& spec) override {
    HONE_RETURN_IF_ERROR(memory_.Check(address, elements * SizeBytes(spec.dtype)));
    FillElements(Pointer(address), elements, spec);
    return absl::OkStatus();
  }
  absl::StatusOr<CompareResult> Compare(uint64_t values, uint64_t reference, int64_t elements,
                                        DataType dtype, const Tolerance& tolerance) override {
    HONE_RETURN_IF_ERROR(memory_.Check(values, elements * SizeBytes(dtype)));
    HONE_RETURN_IF_ERROR(memory_.Check(reference, elements * SizeBytes(dtype)));
    return CompareElements(Pointer(values), Pointer(reference), elements, dtype, tolerance);
  }
  absl::StatusOr<int64_t> FindByteNot(uint64_t address, int value, int64_t bytes) override {
    HONE_RETURN_IF_ERROR(memory_.Check(address, bytes));
    return FindByteNotInMemory(Pointer(address), value, bytes);
  }

  absl::StatusOr<std::unique_ptr<LoadedModule>> Load(const Artifact& artifact) override {
    if (artifact.format != ArtifactFormat::kHostElf) {
      return absl::FailedPreconditionError(absl::StrCat("the CPU device loads HOST_ELF, not ",
                                                        Name(artifact.format), " for ",
                                                        artifact.architecture));
    }
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<CpuModule> module, CpuModule::Load(artifact.bytes));
    return std::make_unique<CpuLoadedModule>(std::move(module));
  }
  absl::Status Launch(LoadedModule& module, const ResolvedLaunch& launch) override {
    return launcher_.Launch(*static_cast<CpuLoadedModule&>(module).module, launch);
  }
  // Launches have ended when they return.
  absl::Status Synchronize() override { return absl::OkStatus(); }

  absl::Status FlushCache() override {
    // A different value each time, so that no store is without effect.
    ++flushes_;
    std::memset(flush_.data(), flushes_, flush_.size());
    // The compiler must not find that nobody reads it.
    asm volatile("" : : "r"(flush_.data()) : "memory");
    return absl::OkStatus();
  }
  absl::StatusOr<double> TimeNs(LoadedModule& module, const ResolvedLaunch& launch) override {
    const auto start = std::chrono::steady_clock::now();
    HONE_RETURN_IF_ERROR(Launch(module, launch));
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::nano>(end - start).count();
  }
  DeviceCondition Condition() override {
    return {.clock_mhz = CurrentClockMhz(),
            .memory_clock_mhz = 0,
            .slowed_down = {},
            .other_processes = -1};
  }

 private:
  const DeviceInfo info_;
  GuardedMemory memory_;
  CpuLauncher launcher_;
  std::vector<unsigned char> flush_;
  unsigned char flushes_ = 0;
};

}  // namespace

std::unique_ptr<Device> MakeCpuDevice() { return std::make_unique<CpuDevice>(); }

}  // namespace hone
