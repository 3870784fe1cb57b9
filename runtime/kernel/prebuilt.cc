#include "runtime/kernel/prebuilt.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// e_machine of the ELF header, little-endian at offset 18.
constexpr size_t kMachineOffset = 18;
constexpr size_t kElfHeaderBytes = 64;
constexpr int kMachineCuda = 190;
constexpr int kMachineX86_64 = 62;
constexpr int kMachineAarch64 = 183;

bool IsPtx(absl::string_view bytes) {
  const absl::string_view head = bytes.substr(0, 4096);
  return absl::StrContains(head, ".version") && absl::StrContains(head, ".target");
}

bool Gives(const PrebuiltCandidate& candidate, const Config& config) {
  return candidate.config.size() == config.values().size() &&
         std::all_of(config.values().begin(), config.values().end(), [&](const auto& value) {
           const auto it = candidate.config.find(value.first);
           return it != candidate.config.end() && it->second == value.second;
         });
}

}  // namespace

std::optional<PrebuiltCandidate> FindPrebuilt(const KernelTemplate& kernel_template,
                                              const Config& config,
                                              const std::string& architecture) {
  std::optional<PrebuiltCandidate> found;
  for (const PrebuiltCandidate& candidate : kernel_template.spec().prebuilt) {
    if (!Gives(candidate, config)) continue;
    if (candidate.architecture == architecture) return candidate;
    if (!found.has_value() && ArchitectureMatches(candidate.architecture, architecture)) {
      found = candidate;
    }
  }
  return found;
}

absl::StatusOr<ArtifactFormat> PrebuiltFormat(absl::string_view bytes) {
  if (!absl::StartsWith(bytes,
                        "\x7f"
                        "ELF") ||
      bytes.size() < kElfHeaderBytes) {
    return absl::InvalidArgumentError(IsPtx(bytes)
                                          ? "is PTX; assemble it to a cubin for the architecture"
                                          : "is not a cubin: it has no ELF header");
  }
  const int machine = static_cast<unsigned char>(bytes[kMachineOffset]) |
                      static_cast<unsigned char>(bytes[kMachineOffset + 1]) << 8;
  if (machine == kMachineCuda) return ArtifactFormat::kCubin;
  if (machine == kMachineX86_64 || machine == kMachineAarch64) return ArtifactFormat::kHostElf;
  return absl::InvalidArgumentError(
      absl::StrCat("is an ELF for machine ", machine, ", not a cubin (", kMachineCuda, ")"));
}

absl::Status CheckPrebuiltBytes(absl::string_view bytes, const std::string& architecture) {
  HONE_ASSIGN_OR_RETURN(const ArtifactFormat format, PrebuiltFormat(bytes));
  const bool wants_host = architecture == "cpu";
  if (wants_host == (format == ArtifactFormat::kHostElf)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("is ", Name(format), ", and ", architecture,
                                                 " loads ", wants_host ? "HOST_ELF" : "CUBIN"));
}

}  // namespace hone
