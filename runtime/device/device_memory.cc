#include "runtime/device/device_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"
#include "runtime/base/status_macros.h"

namespace hone {

absl::Status OutOfDeviceMemory(const std::string& what, int64_t needed, int64_t available) {
  return WithErrorInfo(
      absl::ResourceExhaustedError(absl::StrCat(
          what, " needs ", needed, " bytes of device memory, ", available, " are available")),
      {.reason = "DEVICE_MEMORY", .needed = needed, .available = available});
}

absl::StatusOr<int64_t> DeviceMemory::Available() const {
  HONE_ASSIGN_OR_RETURN(int64_t available, device_->AvailableBytes());
  if (bytes_max_ > 0) available = std::min(available, bytes_max_ - used_);
  return std::max<int64_t>(available, 0);
}

absl::Status DeviceMemory::CanAllocate(int64_t bytes, const std::string& for_what) const {
  HONE_ASSIGN_OR_RETURN(const int64_t available, Available());
  if (bytes <= available) return absl::OkStatus();
  return OutOfDeviceMemory(for_what, bytes, available);
}

absl::StatusOr<DeviceAllocation> DeviceMemory::Allocate(int64_t bytes) {
  if (bytes_max_ > 0 && used_ + bytes > bytes_max_) {
    return OutOfDeviceMemory("an allocation", bytes, std::max<int64_t>(bytes_max_ - used_, 0));
  }
  DeviceAllocation allocation;
  HONE_ASSIGN_OR_RETURN(allocation.address_, device_->Allocate(bytes));
  allocation.memory_ = this;
  allocation.bytes_ = bytes;
  used_ += bytes;
  return allocation;
}

DeviceAllocation& DeviceAllocation::operator=(DeviceAllocation&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  memory_ = std::exchange(other.memory_, nullptr);
  address_ = std::exchange(other.address_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void DeviceAllocation::Reset() {
  if (memory_ == nullptr) return;
  memory_->used_ -= bytes_;
  memory_->device_->Free(address_);
  memory_ = nullptr;
  address_ = 0;
  bytes_ = 0;
}

}  // namespace hone
