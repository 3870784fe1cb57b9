// What a cubin says about itself, read without a GPU or a disassembler.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/kernel/program.h"

namespace hone {

struct CubinInfo {
  int sm_version = 0;  // 90
  // "sm_90a" where the file states the suffix, else without it.
  std::string architecture;
  bool states_suffix = false;
  // One per kernel, by symbol. Shared memory is what the kernel declares: the 1 KiB that the system
  // reserves in every block from sm_90 on is not the kernel's and no part of a block's limit.
  std::vector<EntryResources> kernels;

  const EntryResources* Find(absl::string_view symbol) const;
};

// Total: any bytes give an answer, INVALID_ARGUMENT if they are not a cubin that this code
// understands. Knows the layouts of CUDA 11 and 12 (ELF ABI 7) and of CUDA 13 (ABI 8).
absl::StatusOr<CubinInfo> ParseCubin(absl::string_view bytes);

// SHA-256, in hex, of what a cubin with one kernel does: its code, constants and attributes,
// whatever the kernel is called. Of two template instances that differ in an argument their code
// does not use, the bytes differ and this does not. Several kernels: of their names too. Errors as
// above.
absl::StatusOr<std::string> CubinCodeSha256(absl::string_view bytes);

// An artifact of a cubin that another compiler made: Triton, CuTe DSL, nvcc. INVALID_ARGUMENT if it
// is not a cubin, was built for another architecture than `architecture` ("sm_90a"), or lacks one
// of `symbols` (naming the ones it has). The builder is "prebuilt".
absl::StatusOr<Artifact> PrebuiltArtifact(const std::string& bytes, const std::string& architecture,
                                          const std::vector<std::string>& symbols);

}  // namespace hone
