// What is wrong with a tune, said before anything is compiled or measured for it.
#pragma once

#include "absl/status/status.h"
#include "runtime/cache/kernel_assembler.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/cache/resolved_request.h"

namespace hone {

// INVALID_ARGUMENT naming the config (malformed values, unknown or missing tunables, a constraint
// that does not hold, given twice), a compiler option that is not allowed, or the params whose
// sizes make a buffer of more than 2^63-1 bytes; RESOURCE_EXHAUSTED with needed and available bytes
// when the arguments of one launch are larger than the device's memory; FAILED_PRECONDITION when no
// config is valid for the problem. REQUIRES: the request has a device.
absl::Status CheckTune(const ResolvedRequest& request, const KernelAssembler& assembler,
                       const TuneOptions& options);

// FAILED_PRECONDITION: nothing can be SAME_BITS_AS_DEFAULT, and why. `measured`: the default's
// measurement; nullptr: it has none.
absl::Status NoBitsOfDefault(const std::string& default_config, const Measurement* measured);

}  // namespace hone
