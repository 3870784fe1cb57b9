// Loading artifacts into the current CUDA context and launching resolved recipes on a stream.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/mutex.h"
#include "runtime/launch/cuda_driver.h"
#include "runtime/launch/launch_plan.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {

// One kernel of a CudaModule, which owns it. Thread-safe.
class CudaFunction {
 public:
  CudaFunction(const CudaDriver& driver, CUfunction function)
      : driver_(driver), function_(function) {}

  CUfunction get() const { return function_; }

  // Lets launches have this much dynamic shared memory and this many blocks in a cluster. Costs two
  // loads unless it is more than any launch had before. FAILED_PRECONDITION when the device does
  // not have it.
  absl::Status Allow(uint32_t dynamic_shared_bytes, uint32_t cluster_size) {
    if (dynamic_shared_bytes <= shared_bytes_allowed_.load(std::memory_order_acquire) &&
        (cluster_size <= kPortableClusterSize ||
         large_clusters_allowed_.load(std::memory_order_acquire))) {
      return absl::OkStatus();
    }
    return AllowMore(dynamic_shared_bytes, cluster_size);
  }

 private:
  // Static shared memory counts against this too, but what fits in it needs no opt-in.
  static constexpr uint32_t kSharedBytesWithoutOptIn = 48 * 1024;
  // Larger clusters are not portable and must be allowed function by function.
  static constexpr uint32_t kPortableClusterSize = 8;

  absl::Status AllowMore(uint32_t dynamic_shared_bytes, uint32_t cluster_size);

  const CudaDriver& driver_;
  const CUfunction function_;
  // Of those who raise a limit: the driver's attribute must never fall behind what we say here.
  Mutex mutex_;
  std::atomic<uint32_t> shared_bytes_allowed_ = kSharedBytesWithoutOptIn;
  std::atomic<bool> large_clusters_allowed_ = false;
};

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

  // The kernel under a symbol, loaded (not lazily at its first launch). Found once and kept while
  // the module lives. NOT_FOUND names the symbol.
  absl::StatusOr<CudaFunction*> Find(const std::string& symbol);
  // The same, ready for launches with this much dynamic shared memory and cluster size.
  // FAILED_PRECONDITION when the device does not have that much shared memory.
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
// The same of a planned launch, without an allocation.
absl::Status EncodeTensorMap(const CudaDriver& driver, const PlannedTensorMap& map,
                             CUtensorMap& encoded);

}  // namespace hone
