// The tuned keys most like one that missed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/cache/resolved_request.h"
#include "runtime/store/kernel_store.h"

namespace hone {

inline constexpr size_t kNearKeysMax = 3;

// Tuned keys of the request's kernel on its device, those first that differ in the fewest
// ingredients, of these the nearest problem first. Where there are none, the newest keys of the
// template on other devices and of its other versions. None without a device.
absl::StatusOr<std::vector<NearKey>> NearKeys(const ResolvedRequest& request, KernelStore& store);

// How far apart two problems of one template are: the sum over sizes of |log2 ratio|; nullopt when
// anything but a size differs.
std::optional<double> ProblemDistance(const KernelTemplate& kernel_template, const Values& a,
                                      const Values& b);

}  // namespace hone
