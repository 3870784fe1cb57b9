// The seam to hardware, inside a measuring worker: memory, launches and time. CudaDevice and
// CpuDevice implement it; tests use FakeDevice.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/program.h"
#include "runtime/launch/device_fingerprint.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {

// How a buffer is filled. Values depend on seed and element index only (a permutation and offsets
// on the number of elements too), so that every device, run and alignment gives the same data. The
// formulas stand in element_math.h; host_elements.h applies them to host memory.
struct FillSpec {
  InitKind kind = InitKind::kNormal;
  DataType dtype = DataType::kF32;
  int64_t low = 0;
  int64_t high = 0;
  double skew = 0;
  uint64_t seed = 0;
};

struct CompareResult {
  int64_t elements = 0;
  int64_t mismatches = 0;
  double max_abs_error = 0;
  double max_rel_error = 0;
  int64_t first_mismatch = -1;  // element index
  double first_value = 0;
  double first_reference = 0;
};

// Memory that should hold one byte value throughout.
struct ByteRange {
  uint64_t address = 0;
  int64_t bytes = 0;
  int value = 0;
};

// A loaded artifact; unloading is its destructor. Not thread-safe, belongs to one device.
class LoadedModule {
 public:
  virtual ~LoadedModule() = default;
};

struct DeviceCondition {
  int clock_mhz = 0;         // of the multiprocessors; 0: unknown
  int memory_clock_mhz = 0;  // 0: unknown
  // Protection that holds the clocks down, "thermal" or "power brake"; empty: none. A power limit
  // is not among them: heavy kernels always meet it.
  std::string slowed_down;
  // Besides this one, with something on the device; -1: not told.
  int other_processes = -1;
};

// Launches that run in order as one unit of work, without the host between them. Belongs to the
// device that made it; the module and the launch recipes must outlive it.
class LaunchSequence {
 public:
  virtual ~LaunchSequence() = default;
};

// Errors of Launch and Synchronize: FAILED_PRECONDITION when the launch was refused (the kernel
// never ran), ABORTED when the device faulted (an illegal address); after ABORTED the device is
// dead and its process must be replaced.
//
// Not thread-safe: the measuring lane is exclusive.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  // Zero-sized allocations are valid. RESOURCE_EXHAUSTED names needed and available bytes.
  virtual absl::StatusOr<uint64_t> Allocate(int64_t bytes) = 0;
  virtual void Free(uint64_t address) = 0;
  // Bytes that Allocate could still give.
  virtual absl::StatusOr<int64_t> AvailableBytes() = 0;

  virtual absl::Status CopyToDevice(uint64_t to, const void* from, int64_t bytes) = 0;
  virtual absl::Status CopyToHost(void* to, uint64_t from, int64_t bytes) = 0;
  virtual absl::Status CopyOnDevice(uint64_t to, uint64_t from, int64_t bytes) = 0;
  // Every byte becomes `value`.
  virtual absl::Status Memset(uint64_t address, int value, int64_t bytes) = 0;
  // `elements` elements of spec.dtype.
  virtual absl::Status Fill(uint64_t address, int64_t elements, const FillSpec& spec) = 0;
  // Compares elements of `dtype` under `tolerance`.
  virtual absl::StatusOr<CompareResult> Compare(uint64_t values, uint64_t reference,
                                                int64_t elements, DataType dtype,
                                                const Tolerance& tolerance) = 0;
  // Offset of the first byte that is not `value`, or -1.
  virtual absl::StatusOr<int64_t> FindByteNot(uint64_t address, int value, int64_t bytes) = 0;
  // FindByteNot for each range; devices with a queue answer all after one wait.
  virtual absl::StatusOr<std::vector<int64_t>> FindByteNotIn(const std::vector<ByteRange>& ranges);
  // A 64-bit digest of the bytes that changes with any bit and any order, the same on every device:
  // tells whether a buffer changed and whether outputs are equal. Not cryptographic. The default
  // reads the memory through CopyToHost.
  virtual absl::StatusOr<uint64_t> Checksum(uint64_t address, int64_t bytes);

  virtual absl::StatusOr<std::unique_ptr<LoadedModule>> Load(const Artifact& artifact) = 0;
  // Enqueues all steps in order.
  virtual absl::Status Launch(LoadedModule& module, const ResolvedLaunch& launch) = 0;
  virtual absl::Status Synchronize() = 0;

  // Evicts the last-level cache before a cold sample: a write larger than it.
  virtual absl::Status FlushCache() = 0;
  // Device memory that FlushCache allocates at its first call, and gives it back.
  virtual int64_t flush_bytes() const { return 0; }
  virtual void ReleaseFlush() {}
  // Times one run of `launch` by the device's own events, in ns; queued work ends first. On the CPU
  // device a monotonic clock around the call.
  virtual absl::StatusOr<double> TimeNs(LoadedModule& module, const ResolvedLaunch& launch) = 0;
  // Times one copy by the device's own means, as TimeNs times a kernel. UNIMPLEMENTED (the default)
  // where there are none.
  virtual absl::StatusOr<double> TimeCopyNs(uint64_t to, uint64_t from, int64_t bytes);
  // False (the default) where launching costs nothing that a sequence would save; the other two
  // methods are then UNIMPLEMENTED.
  virtual bool makes_sequences() const { return false; }
  virtual absl::StatusOr<std::unique_ptr<LaunchSequence>> MakeSequence(
      LoadedModule& module, const std::vector<ResolvedLaunch>& launches);
  // TimeNs of a whole sequence.
  virtual absl::StatusOr<double> TimeSequenceNs(LaunchSequence& sequence);
  // As it is now; empty where the device does not tell.
  virtual DeviceCondition Condition() { return {}; }
};

}  // namespace hone
