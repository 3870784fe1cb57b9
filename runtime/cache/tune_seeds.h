// What is worth looking at first: who won nearby.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cache/resolved_request.h"
#include "runtime/store/kernel_store.h"

namespace hone {

// Of each kind.
inline constexpr size_t kSeedsOfAKind = 3;

// Configs without repetition: who won under this very key before, then the winners of the nearest
// problems on this device, nearest first, then those of this problem on other devices, newest
// first. They need not be valid here. REQUIRES: request.device.
absl::StatusOr<std::vector<Config>> TuneSeeds(const ResolvedRequest& request, KernelStore& store);

}  // namespace hone
