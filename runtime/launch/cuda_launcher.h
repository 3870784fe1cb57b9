// Loading artifacts into the current CUDA context and launching resolved recipes on a stream.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/launch/cuda_driver.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {

// A CUmodule of the context that was current at Load. Move-only; unloading is its destructor, which
// needs that context alive and current. Function is thread-safe.
class CudaModule {
 public:
  // `image`: a CUBIN, fatbin or PTX text. FAILED_PRECONDITION with the driver's log when the driver
  // does not take it (another architecture, newer PTX than it knows).
  static absl::StatusOr<CudaModule> Load(const CudaDriver& driver, absl::string_view image);

  CudaModule(CudaModule&&) noexcept;
  CudaModule& operator=(CudaModule&&) noexcept;
  ~CudaModule();

  // The function under a symbol, ready for launches with this much dynamic shared memory and
  // cluster size: loaded (not lazily at its first launch), attributes set. Found once and kept.
  // NOT_FOUND names the symbol; FAILED_PRECONDITION when the device does not have that much shared
  // memory.
  absl::StatusOr<CUfunction> Function(const std::string& symbol, uint32_t dynamic_shared_bytes = 0,
                                      uint32_t cluster_size = 1);

  CUmodule get() const;
  const CudaDriver& driver() const;

 private:
  struct State;
  explicit CudaModule(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Enqueues all steps in order, kernels and memsets. Makes no synchronising call, so it is legal
// while the stream is captured, provided the module was loaded and each function found before.
// Errors: FAILED_PRECONDITION when a launch was refused (it never ran), ABORTED when the context is
// dead; both name the step. The context that loaded the module must be current.
absl::Status LaunchOnStream(const CudaDriver& driver, CudaModule& module,
                            const ResolvedLaunch& launch, CUstream stream);

// A tensor map as the kernel takes it. FAILED_PRECONDITION when the driver has no tensor maps or
// refuses these values, with the values.
absl::StatusOr<CUtensorMap> EncodeTensorMap(const CudaDriver& driver, const ResolvedTensorMap& map);

}  // namespace hone
