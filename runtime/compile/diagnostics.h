// Reading a compiler's log: how many errors, where the first one is, and the caller's own lines
// there.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/kernel/program.h"

namespace hone {

struct Diagnostics {
  int error_count = 0;
  // The compiler stopped counting ("100, limit reached").
  bool error_limit_reached = false;
  // First error line with the caller's source around it; one paragraph for a terminal. Empty
  // without errors.
  std::string excerpt;
};

// Understands the formats of NVRTC's front end, its assembler, and GCC or Clang. `program` gives
// the source lines; positions in other files give no excerpt of source. `log` must be the whole
// log, not yet truncated.
Diagnostics ReadLog(absl::string_view log, const Program& program);

// "k.cu(1): error: ...", "100 errors, limit reached; first: k.cu(1): error: ...". For
// Rejection::detail. Never empty.
std::string ErrorSummary(const Diagnostics& diagnostics);

// Keeps the head, where the first errors are, up to `bytes_max`, cut at a line where possible.
// Returns the number of bytes dropped.
int64_t TruncateLog(std::string& log, int64_t bytes_max);

}  // namespace hone
