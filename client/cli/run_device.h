// The device `hone run` launches on: memory, copies and one launch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/hone/kernel.h"

namespace hone::cli {

// Not thread-safe. Frees what it allocated.
class RunDevice {
 public:
  virtual ~RunDevice() = default;

  // At least 256-byte aligned. RESOURCE_EXHAUSTED when there is not that much.
  virtual absl::StatusOr<uint64_t> Allocate(int64_t bytes) = 0;
  virtual absl::Status CopyIn(uint64_t to, absl::string_view from) = 0;
  virtual absl::Status CopyOut(std::string& to, uint64_t from, int64_t bytes) = 0;
  // Loads the kernel, so that a profiler sees one launch and nothing else between.
  virtual absl::Status Prepare(const Kernel& kernel) = 0;
  // One launch, waited for; returns the device's time for it in ns.
  virtual absl::StatusOr<double> Launch(const Kernel& kernel, const LaunchArguments& arguments) = 0;
};

// FAILED_PRECONDITION without a driver or device of this index. Takes the device's primary context.
absl::StatusOr<std::unique_ptr<RunDevice>> OpenCudaDevice(int index);
std::unique_ptr<RunDevice> OpenCpuDevice();

}  // namespace hone::cli
