#include "client/cpp/buffer_contents.h"

#include <memory>
#include <new>

#include "absl/strings/str_cat.h"
#include "client/cpp/stream_capture.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/cuda_driver.h"

namespace hone {

absl::Status ReadContents(uint64_t address, int64_t bytes, bool on_cpu, CUstream_st* stream,
                          absl::FunctionRef<absl::Status(absl::string_view)> use) {
  const auto size = static_cast<size_t>(bytes);
  if (on_cpu) return use({reinterpret_cast<const char*>(address), size});
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  if (IsCapturing(*driver, stream)) {
    return absl::FailedPreconditionError("the stream was being captured");
  }
  const std::unique_ptr<char[]> copy(new (std::nothrow) char[size]);
  if (copy == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a copy of ", bytes, " bytes"));
  }
  const RelaxedCapture relaxed(*driver);
  HONE_CUDA_RETURN_IF_ERROR(*driver, MemcpyDtoHAsync(copy.get(), address, size, stream));
  HONE_CUDA_RETURN_IF_ERROR(*driver, StreamSynchronize(stream));
  return use({copy.get(), size});
}

}  // namespace hone
