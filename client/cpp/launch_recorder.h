// Between a kernel and what the process records of its launches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/cpp/hone/kernel.h"
#include "client/cpp/hone/kernel_request.h"
#include "client/cpp/kernel_outline.h"
#include "client/cpp/launch_capture.h"
#include "runtime/launch/buffer_extent.h"
#include "runtime/launch/launch_plan.h"

namespace hone {

// Immutable; thread-safe.
class LaunchRecorder {
 public:
  // `asked`: the request that `kernel` answers. `capture` must outlive this.
  LaunchRecorder(LaunchCapture* capture, const Kernel& kernel, const GetKernelOptions& asked);

  // Where a launch's buffers are.
  struct Place {
    bool on_cpu = false;
    CUstream_st* stream = nullptr;  // of the current context
  };
  // Calls `launch`, which makes this launch, and returns its status, whatever becomes of recording
  // it. `accepts` tells whether the kernel takes the inputs; until it does, their buffers are not
  // looked into.
  absl::Status Record(const PlanInputs& inputs, const Place& place,
                      absl::FunctionRef<bool()> accepts,
                      absl::FunctionRef<absl::Status()> launch) const;

 private:
  // A buffer of one launch.
  struct BufferFacts {
    uint64_t address = 0;
    BufferExtent extent{};  // empty where a fact of the device is needed to know it
    // What became of the contents.
    std::string contents_file{};
    int64_t contents_bytes = 0;
    std::string contents_missing{};
  };

  // Equal for launches of one problem.
  std::string KeyOf(const PlanInputs& inputs) const;
  // In the order of outline_.
  std::vector<BufferFacts> FactsOf(const PlanInputs& inputs) const;
  void StoreContents(const Place& place, std::vector<BufferFacts>& buffers) const;
  absl::Status StoreContents(const Place& place, const BufferOutline& outline,
                             BufferFacts& buffer) const;
  std::string Describe(const PlanInputs& inputs, const std::vector<BufferFacts>& buffers) const;

  LaunchCapture* const capture_;
  const Kernel kernel_;  // not recorded itself
  const KernelOutline outline_;
  std::string text_;      // fields of CapturedProblem that are the same for all launches
  std::string identity_;  // of text_
};

// The same kernel; its launches are recorded. `capture` nullptr: as it is.
Kernel Recorded(Kernel kernel, LaunchCapture* capture, const GetKernelOptions& asked);

}  // namespace hone
