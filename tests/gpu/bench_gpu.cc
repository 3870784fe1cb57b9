#include "tests/gpu/bench_gpu.h"

#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// Several times an H200's L2 of 60 MB.
constexpr size_t kFlushBytes = size_t{256} << 20;

}  // namespace

absl::StatusOr<BenchGpu> BenchGpu::Open() {
  BenchGpu gpu;
  HONE_ASSIGN_OR_RETURN(gpu.driver_, CudaDriver::Get());
  CUdevice device;
  HONE_CUDA_RETURN_IF_ERROR(*gpu.driver_, DeviceGet(&device, 0));
  CUcontext context;
  HONE_CUDA_RETURN_IF_ERROR(*gpu.driver_, DevicePrimaryCtxRetain(&context, device));
  HONE_CUDA_RETURN_IF_ERROR(*gpu.driver_, CtxSetCurrent(context));
  HONE_CUDA_RETURN_IF_ERROR(*gpu.driver_, EventCreate(&gpu.begin_, CU_EVENT_DEFAULT));
  HONE_CUDA_RETURN_IF_ERROR(*gpu.driver_, EventCreate(&gpu.end_, CU_EVENT_DEFAULT));
  HONE_CUDA_RETURN_IF_ERROR(*gpu.driver_, MemAlloc(&gpu.flush_, kFlushBytes));
  return gpu;
}

absl::StatusOr<CUdeviceptr> BenchGpu::Allocate(int64_t bytes) const {
  CUdeviceptr address;
  HONE_CUDA_RETURN_IF_ERROR(*driver_, MemAlloc(&address, static_cast<size_t>(bytes)));
  return address;
}

absl::Status BenchGpu::Upload(CUdeviceptr to, const std::vector<uint32_t>& from) const {
  HONE_CUDA_RETURN_IF_ERROR(*driver_, MemcpyHtoD(to, from.data(), from.size() * 4));
  return absl::OkStatus();
}

absl::Status BenchGpu::Download(std::vector<uint32_t>& to, CUdeviceptr from) const {
  HONE_CUDA_RETURN_IF_ERROR(*driver_, MemcpyDtoH(to.data(), from, to.size() * 4));
  return absl::OkStatus();
}

absl::Status BenchGpu::DriverCopy(CUdeviceptr to, CUdeviceptr from, int64_t bytes) const {
  HONE_CUDA_RETURN_IF_ERROR(*driver_,
                            MemcpyDtoDAsync(to, from, static_cast<size_t>(bytes), nullptr));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> BenchGpu::FreeBytes() const {
  size_t free = 0, total = 0;
  HONE_CUDA_RETURN_IF_ERROR(*driver_, MemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

absl::StatusOr<double> BenchGpu::TimeUs(const std::function<absl::Status()>& work) const {
  HONE_CUDA_RETURN_IF_ERROR(*driver_, EventRecord(begin_, nullptr));
  HONE_RETURN_IF_ERROR(work());
  HONE_CUDA_RETURN_IF_ERROR(*driver_, EventRecord(end_, nullptr));
  HONE_CUDA_RETURN_IF_ERROR(*driver_, EventSynchronize(end_));
  float ms = 0;
  HONE_CUDA_RETURN_IF_ERROR(*driver_, EventElapsedTime(&ms, begin_, end_));
  return ms * 1e3;
}

absl::StatusOr<std::vector<double>> BenchGpu::TimesUs(int count,
                                                      const std::function<absl::Status()>& work) {
  while (marks_.size() < static_cast<size_t>(count) + 1) {
    CUevent mark = nullptr;
    HONE_CUDA_RETURN_IF_ERROR(*driver_, EventCreate(&mark, CU_EVENT_DEFAULT));
    marks_.push_back(mark);
  }
  // The first run covers the hand-over of the second, and so on.
  HONE_RETURN_IF_ERROR(work());
  HONE_CUDA_RETURN_IF_ERROR(*driver_, EventRecord(marks_[0], nullptr));
  for (int i = 1; i <= count; ++i) {
    HONE_RETURN_IF_ERROR(work());
    HONE_CUDA_RETURN_IF_ERROR(*driver_, EventRecord(marks_[static_cast<size_t>(i)], nullptr));
  }
  HONE_CUDA_RETURN_IF_ERROR(*driver_, EventSynchronize(marks_[static_cast<size_t>(count)]));
  std::vector<double> times_us;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    float ms = 0;
    HONE_CUDA_RETURN_IF_ERROR(*driver_, EventElapsedTime(&ms, marks_[i], marks_[i + 1]));
    times_us.push_back(ms * 1e3);
  }
  return times_us;
}

absl::StatusOr<double> BenchGpu::ColdTimeUs(const std::function<absl::Status()>& work) const {
  HONE_CUDA_RETURN_IF_ERROR(*driver_, MemsetD8Async(flush_, 0x5a, kFlushBytes, nullptr));
  return TimeUs(work);
}

}  // namespace hone
