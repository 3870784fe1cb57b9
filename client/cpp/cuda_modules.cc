#include "client/cpp/cuda_modules.h"

#include "runtime/base/status_macros.h"

namespace hone {

CudaModules& CudaModules::Get() {
  static auto& modules = *new CudaModules();
  return modules;
}

absl::StatusOr<uint64_t> CudaModules::CurrentContext(const CudaDriver& driver) {
  CUcontext context = nullptr;
  HONE_CUDA_RETURN_IF_ERROR(driver, CtxGetCurrent(&context));
  if (context == nullptr) {
    return absl::FailedPreconditionError(
        "no CUDA context is current on this thread; call cuCtxSetCurrent or cudaSetDevice first");
  }
  unsigned long long id = 0;
  HONE_CUDA_RETURN_IF_ERROR(driver, CtxGetId(context, &id));
  return id;
}

CudaModule* CudaModules::Find(uint64_t context, const std::string& sha256) {
  const MutexLock lock(&mutex_);
  const auto found = modules_.find({context, sha256});
  return found == modules_.end() ? nullptr : found->second.get();
}

absl::StatusOr<CudaModule*> CudaModules::Load(const CudaDriver& driver, uint64_t context,
                                              const std::string& sha256, absl::string_view image) {
  if (CudaModule* loaded = Find(context, sha256)) return loaded;
  // Without the lock, so that launches of other kernels do not wait. Of two threads that load the
  // same module one keeps its own and the other's goes again.
  HONE_ASSIGN_OR_RETURN(CudaModule module, CudaModule::Load(driver, image));
  auto owned = std::make_unique<CudaModule>(std::move(module));
  const MutexLock lock(&mutex_);
  return modules_.try_emplace({context, sha256}, std::move(owned)).first->second.get();
}

absl::StatusOr<SizeBindings> CudaModules::DeviceFacts(const CudaDriver& driver, uint64_t context) {
  {
    const MutexLock lock(&mutex_);
    const auto found = facts_.find(context);
    if (found != facts_.end()) return found->second;
  }
  CUdevice device = 0;
  HONE_CUDA_RETURN_IF_ERROR(driver, CtxGetDevice(&device));
  SizeBindings facts;
  const auto read = [&](const char* name, CUdevice_attribute attribute) -> absl::Status {
    int value = 0;
    HONE_CUDA_RETURN_IF_ERROR(driver, DeviceGetAttribute(&value, attribute, device));
    facts[name] = value;
    return absl::OkStatus();
  };
  HONE_RETURN_IF_ERROR(read("device.sm_count", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  HONE_RETURN_IF_ERROR(read("device.shared_bytes_per_block_max",
                            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  HONE_RETURN_IF_ERROR(
      read("device.max_threads_per_block", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  HONE_RETURN_IF_ERROR(read("device.l2_bytes", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  HONE_RETURN_IF_ERROR(read("device.warp_size", CU_DEVICE_ATTRIBUTE_WARP_SIZE));
  const MutexLock lock(&mutex_);
  return facts_.try_emplace(context, std::move(facts)).first->second;
}

}  // namespace hone
