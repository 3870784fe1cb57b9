// The GPU as a benchmark's own process uses it, beside a daemon.
#pragma once

#include <cuda.h>

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/launch/cuda_driver.h"

namespace hone {

// Device 0 with its primary context current in the thread that opened it, which alone may use this.
// What is allocated is freed with the process unless Free is called.
class BenchGpu {
 public:
  static absl::StatusOr<BenchGpu> Open();

  absl::StatusOr<CUdeviceptr> Allocate(int64_t bytes) const;
  void Free(CUdeviceptr address) const { driver_->MemFree(address); }
  absl::Status Upload(CUdeviceptr to, const std::vector<uint32_t>& from) const;
  absl::Status Download(std::vector<uint32_t>& to, CUdeviceptr from) const;
  // On the default stream.
  absl::Status DriverCopy(CUdeviceptr to, CUdeviceptr from, int64_t bytes) const;
  // Of the whole device, whoever holds the rest.
  absl::StatusOr<int64_t> FreeBytes() const;

  // Of the work alone, by events on the default stream.
  absl::StatusOr<double> TimeUs(const std::function<absl::Status()>& work) const;
  // Of `count` times the work, handed over together so that the device never waits for the host:
  // the time from one end to the next.
  absl::StatusOr<std::vector<double>> TimesUs(int count, const std::function<absl::Status()>& work);
  // TimeUs after the L2 was flushed.
  absl::StatusOr<double> ColdTimeUs(const std::function<absl::Status()>& work) const;

 private:
  const CudaDriver* driver_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;
  std::vector<CUevent> marks_;
  CUdeviceptr flush_ = 0;
};

}  // namespace hone
