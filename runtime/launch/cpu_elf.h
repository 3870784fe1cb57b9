// What a HOST_ELF artifact's symbol table says about its kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

struct CpuElfFacts {
  // Static shared memory: of all functions together (an upper bound for any kernel) and of the
  // function with most of it (a lower bound for some kernel).
  int64_t total_shared_bytes = 0;
  int64_t largest_shared_bytes = 0;
  // Writable variables at namespace scope: __device__ variables, one for all blocks.
  std::vector<std::string> device_variables;
};

// DATA_LOSS for bytes that are not a 64-bit ELF shared object with a symbol table.
absl::StatusOr<CpuElfFacts> ReadCpuElf(absl::string_view bytes);

}  // namespace hone
