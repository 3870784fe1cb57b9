// Loads HOST_ELF artifacts and launches their kernels on the CPU reference device. Used by
// measuring workers and by clients that enabled the CPU device; the daemon never loads foreign
// code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/launch/cpu_abi.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {

// A loaded artifact; unloading is its destructor. Launches of one module must not overlap, which
// CpuLauncher sees to.
class CpuModule {
 public:
  // DATA_LOSS for bytes that are no module of ours, FAILED_PRECONDITION when they were built for
  // another version of the launcher or for instructions this CPU lacks.
  static absl::StatusOr<std::unique_ptr<CpuModule>> Load(absl::string_view bytes);
  CpuModule(const CpuModule&) = delete;
  CpuModule& operator=(const CpuModule&) = delete;
  ~CpuModule();

  // Static shared memory of the function with most of it.
  int64_t static_shared_bytes() const { return static_shared_bytes_; }
  // Modules with __device__ variables have one copy and run on one hardware thread.
  bool has_device_variables() const { return has_device_variables_; }

 private:
  friend class CpuLauncher;
  struct Copy {
    void* handle = nullptr;
    const HoneCpuModule* module = nullptr;
  };

  CpuModule() = default;
  // The copy of a hardware thread, loaded when first asked for.
  absl::StatusOr<const Copy*> CopyFor(int worker);
  absl::StatusOr<Copy> LoadCopy() const;

  std::string bytes_;
  int64_t static_shared_bytes_ = 0;
  bool has_device_variables_ = false;
  std::vector<Copy> copies_;
};

// Runs blocks on a pool of threads, started at the first launch that needs them. Thread-safe;
// launches are serialised.
class CpuLauncher {
 public:
  // 0: UsableHardwareThreads().
  explicit CpuLauncher(int threads = 0);
  CpuLauncher(const CpuLauncher&) = delete;
  CpuLauncher& operator=(const CpuLauncher&) = delete;
  ~CpuLauncher();

  // Runs the steps in order and returns when the last has ended. FAILED_PRECONDITION when a step
  // was refused or its threads wait for ever, NOT_FOUND for an unknown symbol, ABORTED when a
  // kernel trapped; a bad address ends the process. Later steps are not run after an error.
  absl::Status Launch(CpuModule& module, const ResolvedLaunch& launch);

 private:
  struct Pool;
  absl::Status LaunchStep(CpuModule& module, const ResolvedStep& step);

  std::unique_ptr<Pool> pool_;
};

}  // namespace hone
