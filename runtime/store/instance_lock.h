// One owner a store: a lock file that holds the owner's process id.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace hone {

// Held while the object lives; the system frees it when the process dies, however it dies. The file
// itself stays, because deleting it would let two owners lock two files of one name.
class InstanceLock {
 public:
  // FAILED_PRECONDITION naming the owner's pid and the path when it is held, by this process or
  // another; its ErrorInfo has the reason STORE_IN_USE.
  static absl::StatusOr<std::unique_ptr<InstanceLock>> Acquire(const std::string& path);
  ~InstanceLock();
  InstanceLock(const InstanceLock&) = delete;
  InstanceLock& operator=(const InstanceLock&) = delete;

 private:
  explicit InstanceLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace hone
