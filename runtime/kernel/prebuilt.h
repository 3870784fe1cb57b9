// Binaries from another compiler: which candidate stands for a config.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/program.h"

namespace hone {

// The candidate for a config on an architecture; nullopt if the template has none. One listed for
// the architecture itself goes before one for its plain form ("sm_90" for "sm_90a").
std::optional<PrebuiltCandidate> FindPrebuilt(const KernelTemplate& kernel_template,
                                              const Config& config,
                                              const std::string& architecture);

// CUBIN for a CUDA ELF, HOST_ELF for one of this machine's processor; INVALID_ARGUMENT for anything
// else, PTX by name.
absl::StatusOr<ArtifactFormat> PrebuiltFormat(absl::string_view bytes);

// OK if `bytes` are a binary that can be loaded for `architecture`: a cubin, or for "cpu" a shared
// object.
absl::Status CheckPrebuiltBytes(absl::string_view bytes, const std::string& architecture);

}  // namespace hone
