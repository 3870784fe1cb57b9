#include "runtime/kernel/program.h"

namespace hone {

std::string Name(ArtifactFormat format) {
  switch (format) {
    case ArtifactFormat::kCubin:
      return "CUBIN";
    case ArtifactFormat::kPtx:
      return "PTX";
    case ArtifactFormat::kHostElf:
      return "HOST_ELF";
  }
  return "UNKNOWN";
}

const EntryResources* Artifact::FindResources(const std::string& symbol) const {
  for (const EntryResources& entry : resources) {
    if (entry.symbol == symbol) return &entry;
  }
  return nullptr;
}

}  // namespace hone
