#include "client/cli/run_device.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/cuda_driver.h"

namespace hone::cli {
namespace {

constexpr size_t kAlignmentBytes = 256;

class CpuRunDevice : public RunDevice {
 public:
  absl::StatusOr<uint64_t> Allocate(int64_t bytes) override {
    const size_t size = (static_cast<size_t>(bytes) / kAlignmentBytes + 1) * kAlignmentBytes;
    memory_.emplace_back(std::aligned_alloc(kAlignmentBytes, size), &std::free);
    if (memory_.back() == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes"));
    }
    return reinterpret_cast<uint64_t>(memory_.back().get());
  }
  absl::Status CopyIn(uint64_t to, absl::string_view from) override {
    std::memcpy(reinterpret_cast<void*>(to), from.data(), from.size());
    return absl::OkStatus();
  }
  absl::Status CopyOut(std::string& to, uint64_t from, int64_t bytes) override {
    to.assign(reinterpret_cast<const char*>(from), static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status Prepare(const Kernel&) override { return absl::OkStatus(); }
  absl::StatusOr<double> Launch(const Kernel& kernel, const LaunchArguments& arguments) override {
    const auto began = std::chrono::steady_clock::now();
    HONE_RETURN_IF_ERROR(kernel.LaunchOnCpu(arguments));
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began)
        .count();
  }

 private:
  std::vector<std::unique_ptr<void, decltype(&std::free)>> memory_;
};

class CudaRunDevice : public RunDevice {
 public:
  explicit CudaRunDevice(const CudaDriver& driver) : driver_(driver) {}

  absl::Status Open(int index) {
    int count = 0;
    HONE_CUDA_RETURN_IF_ERROR(driver_, DeviceGetCount(&count));
    if (index >= count) {
      return absl::FailedPreconditionError(
          absl::StrCat("no CUDA device ", index, " here; there are ", count));
    }
    HONE_CUDA_RETURN_IF_ERROR(driver_, DeviceGet(&device_, index));
    HONE_CUDA_RETURN_IF_ERROR(driver_, DevicePrimaryCtxRetain(&context_, device_));
    HONE_CUDA_RETURN_IF_ERROR(driver_, CtxSetCurrent(context_));
    HONE_CUDA_RETURN_IF_ERROR(driver_, StreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    for (CUevent& event : events_) {
      HONE_CUDA_RETURN_IF_ERROR(driver_, EventCreate(&event, CU_EVENT_DEFAULT));
    }
    return absl::OkStatus();
  }

  // Results are of no use any more: the process is about to leave, and after a fault each call
  // fails.
  ~CudaRunDevice() override {
    for (const CUdeviceptr address : memory_) driver_.MemFree(address);
    for (CUevent event : events_) {
      if (event != nullptr) driver_.EventDestroy(event);
    }
    if (stream_ != nullptr) driver_.StreamDestroy(stream_);
    if (context_ != nullptr) driver_.DevicePrimaryCtxRelease(device_);
  }

  absl::StatusOr<uint64_t> Allocate(int64_t bytes) override {
    CUdeviceptr address = 0;
    const CUresult result =
        driver_.MemAlloc(&address, static_cast<size_t>(bytes) + kAlignmentBytes);
    if (result != CUDA_SUCCESS) {
      const absl::Status status = driver_.ToStatus(result, "cuMemAlloc");
      return absl::Status(status.code(), absl::StrCat(bytes, " bytes: ", status.message()));
    }
    memory_.push_back(address);
    return address;
  }
  absl::Status CopyIn(uint64_t to, absl::string_view from) override {
    if (from.empty()) return absl::OkStatus();
    HONE_CUDA_RETURN_IF_ERROR(driver_, MemcpyHtoD(to, from.data(), from.size()));
    return absl::OkStatus();
  }
  absl::Status CopyOut(std::string& to, uint64_t from, int64_t bytes) override {
    to.resize(static_cast<size_t>(bytes));
    if (bytes == 0) return absl::OkStatus();
    HONE_CUDA_RETURN_IF_ERROR(driver_, MemcpyDtoH(to.data(), from, to.size()));
    return absl::OkStatus();
  }
  absl::Status Prepare(const Kernel& kernel) override { return kernel.Prepare(); }
  absl::StatusOr<double> Launch(const Kernel& kernel, const LaunchArguments& arguments) override {
    // Copies from pageable memory may still be on their way in another stream.
    HONE_CUDA_RETURN_IF_ERROR(driver_, CtxSynchronize());
    HONE_CUDA_RETURN_IF_ERROR(driver_, EventRecord(events_[0], stream_));
    HONE_RETURN_IF_ERROR(kernel.Launch(arguments, stream_));
    HONE_CUDA_RETURN_IF_ERROR(driver_, EventRecord(events_[1], stream_));
    HONE_CUDA_RETURN_IF_ERROR(driver_, StreamSynchronize(stream_));
    float ms = 0;
    HONE_CUDA_RETURN_IF_ERROR(driver_, EventElapsedTime(&ms, events_[0], events_[1]));
    return static_cast<double>(ms) * 1e6;
  }

 private:
  const CudaDriver& driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent events_[2] = {nullptr, nullptr};
  std::vector<CUdeviceptr> memory_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunDevice>> OpenCudaDevice(int index) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  auto device = std::make_unique<CudaRunDevice>(*driver);
  HONE_RETURN_IF_ERROR(device->Open(index));
  return device;
}

std::unique_ptr<RunDevice> OpenCpuDevice() { return std::make_unique<CpuRunDevice>(); }

}  // namespace hone::cli
