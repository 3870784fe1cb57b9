#include "client/cpp/serving_target.h"

#include <map>

#include "client/cpp/stream_capture.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/cuda_device_info.h"
#include "runtime/launch/cuda_driver.h"
#include "runtime/launch/device_fingerprint_proto.h"

namespace hone {

absl::StatusOr<v1::Target> TargetOfCurrentContext() {
  v1::Target target;
  const auto driver = CudaDriver::Get();
  if (!driver.ok()) return target;
  CUcontext context = nullptr;
  HONE_CUDA_RETURN_IF_ERROR(**driver, CtxGetCurrent(&context));
  if (context == nullptr) return target;
  CUdevice device = 0;
  HONE_CUDA_RETURN_IF_ERROR(**driver, CtxGetDevice(&device));
  // A CUdevice is the index that cuDeviceGet took.
  HONE_ASSIGN_OR_RETURN(const DeviceInfo info, DescribeCudaDevice(**driver, device));
  *target.mutable_device() = ToProto(info.fingerprint);
  target.set_driver_version(info.driver_version);
  return target;
}

int CurrentCudaDevice() {
  const auto driver = CudaDriver::Get();
  CUdevice device = -1;
  if (!driver.ok() || (*driver)->CtxGetDevice(&device) != CUDA_SUCCESS) return -1;
  return device;
}

bool IsCapturingInCurrentContext(CUstream_st* stream) {
  const auto driver = CudaDriver::Get();
  CUcontext context = nullptr;
  return driver.ok() && (*driver)->CtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr &&
         IsCapturing(**driver, stream);
}

absl::Status UseCudaDevice(int device) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  HONE_ASSIGN_OR_RETURN(const CUdevice handle, CudaDeviceAt(*driver, device));
  // Retained once: a reference for every call would never be given back.
  static Mutex& mutex = *new Mutex();
  static auto& contexts = *new std::map<int, CUcontext>();
  const MutexLock lock(&mutex);
  CUcontext& context = contexts[device];
  if (context == nullptr) {
    HONE_CUDA_RETURN_IF_ERROR(*driver, DevicePrimaryCtxRetain(&context, handle));
  }
  HONE_CUDA_RETURN_IF_ERROR(*driver, CtxSetCurrent(context));
  return absl::OkStatus();
}

}  // namespace hone
