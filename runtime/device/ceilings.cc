#include "runtime/device/ceilings.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/device_memory.h"
#include "runtime/kernel/architecture.h"

namespace hone {
namespace {

constexpr int kRepetitions = 7;
// A run long enough that its begin and end do not count, short enough that a device does not yet
// lower its clocks for the power it draws: candidates are timed in bursts as short.
constexpr double kRunNs = 1e6;
constexpr int64_t kStepsMax = int64_t{1} << 32;
// So large that what stays in the cache at the end does not count; a device with less memory to
// spare gets less.
constexpr int64_t kCopyBytesMax = int64_t{1} << 30;
constexpr int64_t kCopyBytesMaxCpu = int64_t{128} << 20;
constexpr int64_t kCopyBytesMin = int64_t{8} << 20;  // of every kernel's chunks a multiple
// As the sampler's for short kernels.
constexpr int kEmptyLaunches = 20;

struct RateKernel {
  const char* symbol;
  const char* ceiling;
  const char* how;
  uint32_t threads;
  uint32_t blocks_per_sm;
  double flops;  // of one block in one step
};

struct CopyKernel {
  const char* symbol;
  const char* how;
  uint32_t threads;
  int64_t block_bytes;
};

// As ceiling_kernels.cu has them. Warps of mma.sync: 8 sums of 16 x 8; warpgroups of wgmma: 4
// steps on a sum of 64 x 256.
std::vector<RateKernel> RateKernelsFor(const Architecture& architecture,
                                       const std::string& architecture_name) {
  if (architecture.cpu)
    return {{"hone_rate_f32", kF32Ceiling, "8 lanes, 12 sums", 1, 1, 12 * 8 * 2.0}};
  constexpr double kMmaFlops = 8.0 * 8 * 16 * 8 * 2;      // warps, sums, rows, columns
  constexpr double kWgmmaFlops = 2.0 * 4 * 64 * 256 * 2;  // warpgroups, steps, rows, columns
  std::vector<RateKernel> kernels = {
      {"hone_rate_f32", kF32Ceiling, "16 sums a thread", 256, 8, 256.0 * 8 * 16 * 2}};
  const auto add_mma = [&](const char* symbol, const char* ceiling, double k) {
    kernels.push_back({symbol, ceiling, "8 sums a warp", 256, 4, kMmaFlops * k});
  };
  const auto add_wgmma = [&](const char* symbol, const char* ceiling, double k) {
    kernels.push_back({symbol, ceiling, "64 x 256 sums a warpgroup", 256, 1, kWgmmaFlops * k});
  };
  if (architecture.version >= 80) {
    add_mma("hone_rate_mma_sync_tf32", "mma_sync_tf32", 8);
    add_mma("hone_rate_mma_sync_f16", "mma_sync_f16", 16);
    add_mma("hone_rate_mma_sync_bf16", "mma_sync_bf16", 16);
  }
  if (architecture.version >= 89) add_mma("hone_rate_mma_sync_fp8", "mma_sync_fp8", 32);
  if (architecture_name == "sm_90a") {
    add_wgmma("hone_rate_wgmma_tf32", "wgmma_tf32", 8);
    add_wgmma("hone_rate_wgmma_f16", "wgmma_f16", 16);
    add_wgmma("hone_rate_wgmma_bf16", "wgmma_bf16", 16);
    add_wgmma("hone_rate_wgmma_fp8", "wgmma_fp8", 32);
  }
  return kernels;
}

std::vector<CopyKernel> CopyKernelsFor(const Architecture& architecture) {
  if (architecture.cpu) {
    return {{"hone_copy_small_chunks", "the C library's copy of 64 KiB at a time", 1, 64 << 10},
            {"hone_copy_large_chunks", "the C library's copy of 8 MiB at a time", 1, 8 << 20}};
  }
  return {{"hone_copy_1", "16-byte accesses, 1 in flight", 1024, 1024 * 16},
          {"hone_copy_4", "16-byte accesses, 4 in flight", 256, 256 * 16 * 4},
          {"hone_copy_8", "16-byte accesses, 8 in flight", 512, 512 * 16 * 8}};
}

template <typename T>
PackedArgument Packed(const T& value) {
  PackedArgument packed;
  packed.bytes.resize(sizeof(T));
  std::memcpy(packed.bytes.data(), &value, sizeof(T));
  return packed;
}

// Device memory that goes with its scope.
class CeilingBuffer {
 public:
  static absl::StatusOr<CeilingBuffer> Allocate(Device& device, int64_t bytes) {
    HONE_ASSIGN_OR_RETURN(const uint64_t address, device.Allocate(bytes));
    return CeilingBuffer(&device, address);
  }
  CeilingBuffer(CeilingBuffer&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), address_(other.address_) {}
  CeilingBuffer& operator=(CeilingBuffer&&) = delete;
  ~CeilingBuffer() {
    if (device_ != nullptr) device_->Free(address_);
  }
  uint64_t address() const { return address_; }

 private:
  CeilingBuffer(Device* device, uint64_t address) : device_(device), address_(address) {}
  Device* device_;
  uint64_t address_;
};

class CeilingMeasurement {
 public:
  CeilingMeasurement(Device& device, const Artifact& kernels, LoadedModule& module)
      : device_(device), kernels_(kernels), module_(module) {}

  // The fastest of several, after one that loads what is loaded lazily.
  absl::StatusOr<double> FastestNs(const std::function<absl::StatusOr<double>()>& time) {
    HONE_RETURN_IF_ERROR(time().status());
    double fastest_ns = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRepetitions; ++i) {
      HONE_ASSIGN_OR_RETURN(const double ns, time());
      if (ns > 0) fastest_ns = std::min(fastest_ns, ns);
    }
    return fastest_ns;
  }

  absl::StatusOr<Ceiling> Copy(const std::vector<CopyKernel>& kernels, int64_t bytes_max,
                               int64_t memory_bytes_max) {
    HONE_ASSIGN_OR_RETURN(const int64_t available, device_.AvailableBytes());
    int64_t fits = available / 4;
    if (memory_bytes_max > 0) {
      const int64_t needed = 2 * kCopyBytesMin + device_.flush_bytes();
      if (memory_bytes_max < needed) {
        return OutOfDeviceMemory("measuring ceilings", needed, memory_bytes_max);
      }
      fits = std::min(fits, (memory_bytes_max - device_.flush_bytes()) / 2);
    }
    fits = fits / kCopyBytesMin * kCopyBytesMin;
    const int64_t bytes = std::clamp(fits, kCopyBytesMin, bytes_max);
    HONE_ASSIGN_OR_RETURN(const CeilingBuffer to, CeilingBuffer::Allocate(device_, bytes));
    HONE_ASSIGN_OR_RETURN(const CeilingBuffer from, CeilingBuffer::Allocate(device_, bytes));
    FillSpec fill;
    HONE_RETURN_IF_ERROR(device_.Fill(from.address(), bytes / SizeBytes(fill.dtype), fill));
    HONE_RETURN_IF_ERROR(device_.Memset(to.address(), 0, bytes));
    Ceiling ceiling{.name = kCopyCeiling, .value = 0, .unit = "GB/s", .how = ""};
    const auto offer = [&](double ns, const std::string& how) {
      const double gb_per_s = 2 * static_cast<double>(bytes) / ns;
      if (gb_per_s <= ceiling.value) return;
      ceiling.value = gb_per_s;
      ceiling.how = how;
    };
    for (const CopyKernel& kernel : kernels) {
      const ResolvedLaunch launch =
          OneKernel(kernel.symbol, bytes / kernel.block_bytes, kernel.threads,
                    {Packed(to.address()), Packed(from.address())});
      HONE_ASSIGN_OR_RETURN(const double ns, FastestNs([&]() -> absl::StatusOr<double> {
                              HONE_RETURN_IF_ERROR(device_.FlushCache());
                              return device_.TimeNs(module_, launch);
                            }));
      offer(ns, kernel.how);
    }
    const auto driver_ns = FastestNs([&]() -> absl::StatusOr<double> {
      HONE_RETURN_IF_ERROR(device_.FlushCache());
      return device_.TimeCopyNs(to.address(), from.address(), bytes);
    });
    if (driver_ns.ok()) {
      offer(*driver_ns, "the driver's copy");
    } else if (!absl::IsUnimplemented(driver_ns.status())) {
      return driver_ns.status();
    }
    device_.ReleaseFlush();
    return ceiling;
  }

  absl::StatusOr<Ceiling> Rate(const RateKernel& kernel, uint64_t out) {
    const int64_t blocks =
        std::max<int64_t>(1, int64_t{device_.info().fingerprint.sm_count} * kernel.blocks_per_sm);
    const auto time = [&](int64_t steps) -> absl::StatusOr<double> {
      return device_.TimeNs(
          module_, OneKernel(kernel.symbol, blocks, kernel.threads, {Packed(out), Packed(steps)}));
    };
    // The steps that take long enough are found by doubling at least, so that a launch's own time
    // does not mislead.
    int64_t steps = 64;
    HONE_RETURN_IF_ERROR(time(steps).status());
    double ns = 0;
    while (true) {
      HONE_ASSIGN_OR_RETURN(ns, time(steps));
      if (ns >= kRunNs / 2 || steps >= kStepsMax) break;
      const double factor = std::clamp(kRunNs / std::max(ns, 1.0), 2.0, 16.0);
      steps = static_cast<int64_t>(static_cast<double>(steps) * factor);
    }
    HONE_ASSIGN_OR_RETURN(ns, FastestNs([&] { return time(steps); }));
    const double flops = kernel.flops * static_cast<double>(blocks) * static_cast<double>(steps);
    return Ceiling{
        .name = kernel.ceiling, .value = flops / ns / 1e3, .unit = "TFLOP/s", .how = kernel.how};
  }

  absl::StatusOr<Ceiling> Launch() {
    const ResolvedLaunch empty = OneKernel("hone_empty", 1, 1, {});
    Ceiling ceiling{.name = kLaunchCeiling, .value = 0, .unit = "ns", .how = "one launch"};
    if (!device_.makes_sequences()) {
      HONE_ASSIGN_OR_RETURN(ceiling.value,
                            FastestNs([&] { return device_.TimeNs(module_, empty); }));
      return ceiling;
    }
    HONE_ASSIGN_OR_RETURN(
        const auto sequence,
        device_.MakeSequence(module_, std::vector<ResolvedLaunch>(kEmptyLaunches, empty)));
    HONE_ASSIGN_OR_RETURN(ceiling.value,
                          FastestNs([&] { return device_.TimeSequenceNs(*sequence); }));
    ceiling.value /= kEmptyLaunches;
    ceiling.how = absl::StrCat("one of ", kEmptyLaunches, " in a graph");
    return ceiling;
  }

 private:
  ResolvedLaunch OneKernel(const std::string& entry, int64_t blocks, uint32_t threads,
                           std::vector<PackedArgument> arguments) const {
    ResolvedStep step;
    const auto lowered = kernels_.lowered_names.find(entry);
    step.symbol = lowered == kernels_.lowered_names.end() ? entry : lowered->second;
    step.grid = {static_cast<uint32_t>(blocks), 1, 1};
    step.block = {threads, 1, 1};
    step.arguments = std::move(arguments);
    ResolvedLaunch launch;
    launch.steps = {std::move(step)};
    return launch;
  }

  Device& device_;
  const Artifact& kernels_;
  LoadedModule& module_;
};

}  // namespace

absl::StatusOr<std::vector<Ceiling>> MeasureCeilings(Device& device, const Artifact& kernels,
                                                     int64_t memory_bytes_max) {
  // What was compiled decides, not the device: an older compiler may not know the device's own
  // architecture.
  const std::string& name = kernels.architecture;
  HONE_ASSIGN_OR_RETURN(const Architecture architecture, ParseArchitecture(name));
  HONE_ASSIGN_OR_RETURN(const auto module, device.Load(kernels));
  CeilingMeasurement measure(device, kernels, *module);
  std::vector<Ceiling> ceilings;
  HONE_ASSIGN_OR_RETURN(
      Ceiling copy,
      measure.Copy(CopyKernelsFor(architecture),
                   architecture.cpu ? kCopyBytesMaxCpu : kCopyBytesMax, memory_bytes_max));
  ceilings.push_back(std::move(copy));
  HONE_ASSIGN_OR_RETURN(const CeilingBuffer out, CeilingBuffer::Allocate(device, sizeof(float)));
  for (const RateKernel& kernel : RateKernelsFor(architecture, name)) {
    HONE_ASSIGN_OR_RETURN(Ceiling rate, measure.Rate(kernel, out.address()));
    ceilings.push_back(std::move(rate));
  }
  HONE_ASSIGN_OR_RETURN(Ceiling launch, measure.Launch());
  ceilings.push_back(std::move(launch));
  std::erase_if(ceilings, [](const Ceiling& ceiling) {
    return !(ceiling.value > 0) || !std::isfinite(ceiling.value);
  });
  return ceilings;
}

}  // namespace hone
