// Which kernel of a pack answers a request.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/hone/kernel_request.h"
#include "hone/v1/kernel_pack.pb.h"

namespace hone {

struct PackMatch {
  int kernel = 0;  // index in KernelPackIndex.kernels
  // Its dynamic sizes are those that were asked for.
  bool exact = false;
  // Why it may not be the best here; empty: its timing was taken on a device like the caller's.
  std::string stale_reason{};
  // What was asked for, with the template's defaults.
  google::protobuf::Map<std::string, v1::Value> params{};
};

// Immutable; thread-safe.
//
// A kernel answers when it is of the template (and digest, if one is given), numerics and values of
// all parameters that were asked for, but for dynamic sizes: every kernel is right at any of them,
// since guards are checked and grids evaluated at each launch. Of several that one is taken
//  1. whose device has the caller's fingerprint, before those of other devices of the architecture,
//     which are marked stale. A target that names only an architecture fits all its devices, and an
//     empty one fits a pack that knows one device;
//  2. whose dynamic sizes are nearest: the sum of |log2(size / asked)| over them is least. Under
//     SAME_BITS_AS_DEFAULT, which promises bits for what was checked, they must be equal.
class PackResolver {
 public:
  // `index` is a KernelPack's and must outlive this.
  explicit PackResolver(const v1::KernelPackIndex& index);

  // NOT_FOUND says what the pack has instead, as the rest of a sentence about it.
  // FAILED_PRECONDITION: only for a later driver than target.driver_version, or for the CPU device,
  // which is not enabled. INVALID_ARGUMENT: a dynamic size is missing or no number.
  absl::StatusOr<PackMatch> Resolve(const GetKernelOptions& request, bool cpu_device_enabled) const;

 private:
  const v1::KernelPackIndex& index_;
  std::unordered_map<std::string, int> templates_;  // by name
  // Kernels that differ in dynamic sizes, device and architecture only.
  std::unordered_map<std::string, std::vector<int>> groups_;
};

}  // namespace hone
