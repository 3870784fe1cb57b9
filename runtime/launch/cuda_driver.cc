#include "runtime/launch/cuda_driver.h"

#include <dlfcn.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

template <typename F>
bool BindSymbol(void* library, const char* symbol, F& member) {
  member = reinterpret_cast<F>(dlsym(library, symbol));
  return member != nullptr;
}

absl::StatusOr<const CudaDriver*> Load() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("no CUDA driver: ", dlerror()));
  }
  auto driver = std::make_unique<CudaDriver>();
#define HONE_CUDA_BIND_REQUIRED(member, symbol, declaration)                           \
  if (!BindSymbol(library, symbol, driver->member)) {                                  \
    return absl::FailedPreconditionError(absl::StrCat(                                 \
        kLibrary, " has no ", symbol, ": hone needs a driver of CUDA 12.0 or later")); \
  }
  HONE_CUDA_REQUIRED_FUNCTIONS(HONE_CUDA_BIND_REQUIRED)
#undef HONE_CUDA_BIND_REQUIRED
#define HONE_CUDA_BIND_OPTIONAL(member, symbol, declaration) \
  BindSymbol(library, symbol, driver->member);
  HONE_CUDA_OPTIONAL_FUNCTIONS(HONE_CUDA_BIND_OPTIONAL)
#undef HONE_CUDA_BIND_OPTIONAL
  HONE_CUDA_RETURN_IF_ERROR(*driver, Init(0));
  return driver.release();
}

}  // namespace

absl::StatusOr<const CudaDriver*> CudaDriver::Get() {
  static const auto& driver = *new absl::StatusOr<const CudaDriver*>(Load());
  return driver;
}

bool IsStickyCudaError(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

absl::Status CudaDriver::ToStatus(CUresult result, absl::string_view call) const {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* description = nullptr;
  if (GetErrorName == nullptr || GetErrorName(result, &name) != CUDA_SUCCESS) name = nullptr;
  if (GetErrorString == nullptr || GetErrorString(result, &description) != CUDA_SUCCESS) {
    description = nullptr;
  }
  const std::string message = absl::StrCat(
      call.substr(0, call.find('(')), ": ",
      name != nullptr ? std::string(name) : absl::StrCat("CUDA error ", static_cast<int>(result)),
      description != nullptr ? ": " : "", description != nullptr ? description : "");
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return absl::ResourceExhaustedError(message);
  if (IsStickyCudaError(result)) return absl::AbortedError(message);
  return absl::FailedPreconditionError(message);
}

}  // namespace hone
