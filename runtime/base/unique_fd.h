// Ownership of one file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace hone {

// Move-only; closes on destruction. -1 is "none". Not thread-safe.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives the descriptor to the caller.
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    // The result of close is of no use: on Linux the descriptor is gone even after EINTR.
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace hone
