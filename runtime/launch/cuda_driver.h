// libcuda as a table of function pointers, bound with dlopen: one build starts with and without a
// GPU.
#pragma once

#include <cuda.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

// X(member, exported symbol, declaration that gives the type). Symbols are versioned by hand: the
// newest one that every supported driver (CUDA 12.0 and later) exports, whatever cuda.h we build
// with.
#define HONE_CUDA_REQUIRED_FUNCTIONS(X)                                                       \
  X(Init, "cuInit", cuInit)                                                                   \
  X(DriverGetVersion, "cuDriverGetVersion", cuDriverGetVersion)                               \
  X(GetErrorName, "cuGetErrorName", cuGetErrorName)                                           \
  X(GetErrorString, "cuGetErrorString", cuGetErrorString)                                     \
  X(DeviceGetCount, "cuDeviceGetCount", cuDeviceGetCount)                                     \
  X(DeviceGet, "cuDeviceGet", cuDeviceGet)                                                    \
  X(DeviceGetName, "cuDeviceGetName", cuDeviceGetName)                                        \
  X(DeviceGetUuid, "cuDeviceGetUuid_v2", cuDeviceGetUuid)                                     \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", cuDeviceGetAttribute)                         \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", cuDeviceTotalMem)                                  \
  X(DeviceGetPCIBusId, "cuDeviceGetPCIBusId", cuDeviceGetPCIBusId)                            \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain)             \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", cuDevicePrimaryCtxRelease)       \
  X(DevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", cuDevicePrimaryCtxGetState)       \
  X(DevicePrimaryCtxSetFlags, "cuDevicePrimaryCtxSetFlags_v2", cuDevicePrimaryCtxSetFlags)    \
  X(CtxSetCurrent, "cuCtxSetCurrent", cuCtxSetCurrent)                                        \
  X(CtxGetCurrent, "cuCtxGetCurrent", cuCtxGetCurrent)                                        \
  X(CtxPushCurrent, "cuCtxPushCurrent_v2", cuCtxPushCurrent)                                  \
  X(CtxPopCurrent, "cuCtxPopCurrent_v2", cuCtxPopCurrent)                                     \
  X(CtxGetId, "cuCtxGetId", cuCtxGetId)                                                       \
  X(CtxGetDevice, "cuCtxGetDevice", cuCtxGetDevice)                                           \
  X(CtxSynchronize, "cuCtxSynchronize", cuCtxSynchronize)                                     \
  X(CtxSetLimit, "cuCtxSetLimit", cuCtxSetLimit)                                              \
  X(CtxGetLimit, "cuCtxGetLimit", cuCtxGetLimit)                                              \
  X(MemGetInfo, "cuMemGetInfo_v2", cuMemGetInfo)                                              \
  X(MemAlloc, "cuMemAlloc_v2", cuMemAlloc)                                                    \
  X(MemFree, "cuMemFree_v2", cuMemFree)                                                       \
  X(MemHostAlloc, "cuMemHostAlloc", cuMemHostAlloc)                                           \
  X(MemFreeHost, "cuMemFreeHost", cuMemFreeHost)                                              \
  X(MemcpyHtoD, "cuMemcpyHtoD_v2", cuMemcpyHtoD)                                              \
  X(MemcpyDtoH, "cuMemcpyDtoH_v2", cuMemcpyDtoH)                                              \
  X(MemcpyDtoD, "cuMemcpyDtoD_v2", cuMemcpyDtoD)                                              \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", cuMemcpyHtoDAsync)                               \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", cuMemcpyDtoHAsync)                               \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", cuMemcpyDtoDAsync)                               \
  X(MemsetD8, "cuMemsetD8_v2", cuMemsetD8)                                                    \
  X(MemsetD8Async, "cuMemsetD8Async", cuMemsetD8Async)                                        \
  X(MemsetD32Async, "cuMemsetD32Async", cuMemsetD32Async)                                     \
  X(PointerGetAttribute, "cuPointerGetAttribute", cuPointerGetAttribute)                      \
  X(StreamCreate, "cuStreamCreate", cuStreamCreate)                                           \
  X(StreamDestroy, "cuStreamDestroy_v2", cuStreamDestroy)                                     \
  X(StreamSynchronize, "cuStreamSynchronize", cuStreamSynchronize)                            \
  X(StreamQuery, "cuStreamQuery", cuStreamQuery)                                              \
  X(StreamIsCapturing, "cuStreamIsCapturing", cuStreamIsCapturing)                            \
  X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode",                     \
    cuThreadExchangeStreamCaptureMode)                                                        \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", cuStreamBeginCapture)                      \
  X(StreamEndCapture, "cuStreamEndCapture", cuStreamEndCapture)                               \
  X(GraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", cuGraphInstantiateWithFlags)    \
  X(GraphLaunch, "cuGraphLaunch", cuGraphLaunch)                                              \
  X(GraphExecDestroy, "cuGraphExecDestroy", cuGraphExecDestroy)                               \
  X(GraphDestroy, "cuGraphDestroy", cuGraphDestroy)                                           \
  X(EventCreate, "cuEventCreate", cuEventCreate)                                              \
  X(EventDestroy, "cuEventDestroy_v2", cuEventDestroy)                                        \
  X(EventRecord, "cuEventRecord", cuEventRecord)                                              \
  X(EventQuery, "cuEventQuery", cuEventQuery)                                                 \
  X(EventSynchronize, "cuEventSynchronize", cuEventSynchronize)                               \
  X(EventElapsedTime, "cuEventElapsedTime", cuEventElapsedTime)                               \
  X(ModuleLoadDataEx, "cuModuleLoadDataEx", cuModuleLoadDataEx)                               \
  X(ModuleUnload, "cuModuleUnload", cuModuleUnload)                                           \
  X(ModuleGetFunction, "cuModuleGetFunction", cuModuleGetFunction)                            \
  X(FuncSetAttribute, "cuFuncSetAttribute", cuFuncSetAttribute)                               \
  X(FuncGetAttribute, "cuFuncGetAttribute", cuFuncGetAttribute)                               \
  X(LaunchKernelEx, "cuLaunchKernelEx", cuLaunchKernelEx)                                     \
  X(OccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor", \
    cuOccupancyMaxActiveBlocksPerMultiprocessor)

// nullptr in drivers that do not have them.
#define HONE_CUDA_OPTIONAL_FUNCTIONS(X)                                                            \
  X(TensorMapEncodeTiled, "cuTensorMapEncodeTiled", cuTensorMapEncodeTiled)                        \
  /* CUDA 12.4: ends lazy loading of one function, which otherwise happens at its first launch. */ \
  X(FuncLoad, "cuFuncLoad", cuFuncLoad)

// Immutable once made; thread-safe. Tests fill their own.
struct CudaDriver {
  // The process's libcuda.so.1, initialised with cuInit. FAILED_PRECONDITION with the loader's text
  // when it is absent, with the symbol when it is too old, with CUDA's error when it has no device.
  // The answer is found once and stays; the library is never unloaded.
  static absl::StatusOr<const CudaDriver*> Get();

  // OK, or: RESOURCE_EXHAUSTED when memory ran out; ABORTED for errors after which the context is
  // dead (illegal address, launch failure or timeout, device assert, ECC, ...); FAILED_PRECONDITION
  // for what was refused before it ran. The message is "call: ERROR_NAME: CUDA's description".
  absl::Status ToStatus(CUresult result, absl::string_view call) const;

#define HONE_CUDA_MEMBER(member, symbol, declaration) decltype(&::declaration) member = nullptr;
  HONE_CUDA_REQUIRED_FUNCTIONS(HONE_CUDA_MEMBER)
  HONE_CUDA_OPTIONAL_FUNCTIONS(HONE_CUDA_MEMBER)
#undef HONE_CUDA_MEMBER
};

// True if the context is dead after this result.
bool IsStickyCudaError(CUresult result);

// Returns from the enclosing function when a driver call fails:
//   HONE_CUDA_RETURN_IF_ERROR(driver, MemFree(address));
#define HONE_CUDA_RETURN_IF_ERROR(driver, call)                \
  do {                                                         \
    const CUresult hone_cuda_result_ = (driver).call;          \
    if (hone_cuda_result_ != CUDA_SUCCESS)                     \
      return (driver).ToStatus(hone_cuda_result_, "cu" #call); \
  } while (false)

}  // namespace hone
