// The bytes of a launch's buffer.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

struct CUstream_st;

namespace hone {

// Gives `use` the bytes as they are when what the stream holds by now is done, and returns its
// status. On a GPU they are copied to the host and the stream is waited for: FAILED_PRECONDITION,
// without a call that would wait, while the stream is captured. RESOURCE_EXHAUSTED without memory
// for the copy.
absl::Status ReadContents(uint64_t address, int64_t bytes, bool on_cpu, CUstream_st* stream,
                          absl::FunctionRef<absl::Status(absl::string_view)> use);

}  // namespace hone
