// The machine code of a binary as text, by a disassembler of this machine.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hone/v1/kernel_service.pb.h"

namespace hone::cli {

// Directories in which disassemblers are looked for: those of $PATH, then bin of $CUDA_HOME and
// $CUDA_PATH, then /usr/local/cuda/bin.
std::vector<std::string> ToolDirectories();

// SASS of a CUBIN (nvdisasm, else cuobjdump), machine code of a HOST_ELF (objdump).
// FAILED_PRECONDITION names what to install and where it was looked for, or says that PTX has no
// machine code yet; INTERNAL with the tool's own words when it fails.
absl::StatusOr<std::string> Disassemble(const v1::ArtifactInfo& info, const std::string& bytes,
                                        const std::vector<std::string>& directories);

}  // namespace hone::cli
