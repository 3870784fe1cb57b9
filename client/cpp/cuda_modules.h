// CUDA modules of this process: loaded once per context, kept while the process lives.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/mutex.h"
#include "runtime/launch/cuda_launcher.h"
#include "runtime/launch/expression.h"

namespace hone {

// Thread-safe. Modules are never unloaded: captured graphs and kernels in flight refer to them.
class CudaModules {
 public:
  // The process's own.
  static CudaModules& Get();

  // Identifies the context current on this thread; never reused, unlike its handle.
  // FAILED_PRECONDITION when there is none.
  static absl::StatusOr<uint64_t> CurrentContext(const CudaDriver& driver);

  // nullptr when it is not loaded in this context.
  CudaModule* Find(uint64_t context, const std::string& sha256);
  // Loads it into the current context unless it is there. Other contexts and modules stay available
  // meanwhile.
  absl::StatusOr<CudaModule*> Load(const CudaDriver& driver, uint64_t context,
                                   const std::string& sha256, absl::string_view image);

  // Facts of the current context's device, under the names expressions use.
  absl::StatusOr<SizeBindings> DeviceFacts(const CudaDriver& driver, uint64_t context);

 private:
  Mutex mutex_;
  std::map<std::pair<uint64_t, std::string>, std::unique_ptr<CudaModule>> modules_
      ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, SizeBindings> facts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
