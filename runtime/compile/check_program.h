// What a program must be before it goes to a compiler.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "runtime/kernel/program.h"

namespace hone {

struct ProgramLimits {
  // Generous for kernels; NVRTC takes seconds for a few thousand statements.
  int64_t source_bytes_max = int64_t{1} << 20;
  int64_t headers_bytes_max = int64_t{8} << 20;  // of all headers sent along
  int headers_max = 10'000;
  int name_expressions_max = 4096;
};

// The program as workers get it: options normalised, name set to a plain file name.
// INVALID_ARGUMENT names the field; RESOURCE_EXHAUSTED names size and limit. The architecture is
// not looked at.
absl::StatusOr<Program> CheckProgram(const Program& program, const ProgramLimits& limits);

}  // namespace hone
