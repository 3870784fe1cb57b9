// Requests that nothing tuned answered.
#pragma once

#include "absl/status/status.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/cache/resolved_request.h"
#include "runtime/store/kernel_store.h"

namespace hone {

// NOT_FOUND with the key that missed and what is tuned nearby.
absl::Status MissStatus(const ResolvedRequest& request, Policy policy, KernelStore& store);

// Best effort: no answer depends on the record.
void RecordMiss(const ResolvedRequest& request, Policy policy, KernelStore& store);

}  // namespace hone
