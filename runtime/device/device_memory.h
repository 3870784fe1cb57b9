// Device memory under a budget.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/device/device.h"

namespace hone {

class DeviceAllocation;

// What one problem may take of a device. Not thread-safe; outlives its allocations.
class DeviceMemory {
 public:
  // `bytes_max` 0: what the device has. `device` must outlive this object.
  DeviceMemory(Device* device, int64_t bytes_max) : device_(device), bytes_max_(bytes_max) {}

  // RESOURCE_EXHAUSTED with needed and available bytes, in the text and as facts.
  absl::StatusOr<DeviceAllocation> Allocate(int64_t bytes);
  // OK if `bytes` more could be had; the error is Allocate's, saying what they are `for_what`.
  absl::Status CanAllocate(int64_t bytes, const std::string& for_what) const;

  // Counts `bytes` that somebody else is going to allocate.
  void Reserve(int64_t bytes) { used_ += bytes; }

  int64_t used() const { return used_; }
  // What Allocate could still give.
  absl::StatusOr<int64_t> Available() const;
  Device* device() const { return device_; }

 private:
  friend class DeviceAllocation;

  Device* const device_;
  const int64_t bytes_max_;
  int64_t used_ = 0;
};

// Move-only; frees in its destructor.
class DeviceAllocation {
 public:
  DeviceAllocation() = default;
  DeviceAllocation(DeviceAllocation&& other) noexcept { *this = std::move(other); }
  DeviceAllocation& operator=(DeviceAllocation&& other) noexcept;
  ~DeviceAllocation() { Reset(); }

  uint64_t address() const { return address_; }
  int64_t bytes() const { return bytes_; }
  void Reset();

 private:
  friend class DeviceMemory;
  DeviceMemory* memory_ = nullptr;
  uint64_t address_ = 0;
  int64_t bytes_ = 0;
};

// "needs N bytes, M are available", with both as facts of the status.
absl::Status OutOfDeviceMemory(const std::string& what, int64_t needed, int64_t available);

}  // namespace hone
