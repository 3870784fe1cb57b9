// Where a process's kernels come from: the daemon, a pack beside it, or a stand-in for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "client/cpp/hone/kernel.h"
#include "client/cpp/hone/kernel_request.h"

namespace hone {

// Marks an error that says that the daemon could not be reached or has fallen silent, in contrast
// to one that it answered with.
inline absl::Status MarkUnreachable(absl::Status status) {
  status.SetPayload("hone/daemon_unreachable", absl::Cord("1"));
  return status;
}
inline bool IsUnreachable(const absl::Status& status) {
  return status.GetPayload("hone/daemon_unreachable").has_value();
}

// Thread-safe. Calls may block and are made outside of all locks.
class KernelSource {
 public:
  virtual ~KernelSource() = default;
  // Errors as Client::GetKernel, marked when the daemon was unreachable.
  virtual absl::StatusOr<Kernel> GetKernel(const GetKernelOptions& options) = 0;
  // Whether to go on.
  using OnWatchEvent = std::function<bool(const v1::WatchEvent&)>;
  // Tells generations of what GetKernel answers under `numerics`, first the present ones, until
  // `on_event` returns false (OK), the source fails (its error), or Close.
  virtual absl::Status Watch(v1::Numerics numerics, const OnWatchEvent& on_event) = 0;
  // OK when the daemon answers, else why not: after one try to connect, or when `timeout` has
  // passed.
  virtual absl::Status Reach(absl::Duration /*timeout*/) { return absl::OkStatus(); }
  // Ends every Watch, and those that begin later, with CANCELLED.
  virtual void Close() = 0;
};

}  // namespace hone
