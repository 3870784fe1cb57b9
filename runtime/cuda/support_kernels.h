// Launches of the measuring lane's own kernels (runtime/device/support_kernels.cu).
#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/device/device.h"
#include "runtime/kernel/program.h"
#include "runtime/launch/cuda_driver.h"
#include "runtime/launch/cuda_launcher.h"

namespace hone {

// Belongs to the context that was current at Load, and to one stream. Not thread-safe. Errors as
// CudaDriver::ToStatus.
class SupportKernels {
 public:
  // `artifact` is SupportProgram's. `sm_count` decides how many blocks fill the device.
  static absl::StatusOr<SupportKernels> Load(const CudaDriver& driver, const Artifact& artifact,
                                             CUstream stream, int sm_count);
  SupportKernels(SupportKernels&& other) noexcept;
  SupportKernels& operator=(SupportKernels&&) = delete;
  ~SupportKernels();

  // Enqueue only.
  absl::Status Fill(uint64_t address, int64_t elements, const FillSpec& spec);
  absl::Status Pause(int64_t duration_ns);
  // Wait for the answer.
  absl::StatusOr<CompareResult> Compare(uint64_t values, uint64_t reference, int64_t elements,
                                        DataType dtype, const Tolerance& tolerance);
  absl::StatusOr<std::vector<int64_t>> FindByteNotIn(const std::vector<ByteRange>& ranges);
  absl::StatusOr<uint64_t> Checksum(uint64_t address, int64_t bytes);

 private:
  SupportKernels(const CudaDriver& driver, CudaModule module, CUstream stream, int sm_count);

  absl::Status Allocate();
  absl::Status Launch(CUfunction function, int64_t threads_of_work, unsigned rows,
                      void** arguments);
  // Copies `bytes` of host staging to the device's, and back after the launch.
  absl::Status Upload(size_t bytes);
  absl::Status Download(size_t offset, size_t bytes);
  absl::StatusOr<double> ReadElement(uint64_t address, int64_t element, DataType dtype);

  const CudaDriver* driver_;
  CudaModule module_;
  CUstream stream_;
  int blocks_max_;
  CUfunction fill_ = nullptr, compare_ = nullptr, find_ = nullptr, checksum_ = nullptr,
             pause_ = nullptr;
  CUdeviceptr staging_ = 0;
  void* host_staging_ = nullptr;  // pinned: copies neither block nor are staged twice
};

}  // namespace hone
