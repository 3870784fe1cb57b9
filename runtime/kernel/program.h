// What a compiler is given, and what it gives back.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/measurement.h"

namespace hone {

// CUDA source with everything the binary depends on. Also raw programs without a template.
struct Program {
  std::string name;  // for logs and diagnostics, for instance "copy_1d.cu"; not part of the key
  std::string source;
  std::vector<SourceFile> headers;       // in search order, sent along
  std::vector<std::string> header_sets;  // digests of registered sets, searched after `headers`
  std::vector<std::string> options;      // from the allow-list, in the order that counts
  std::vector<std::pair<std::string, std::string>> defines;
  std::vector<std::string> name_expressions;
  std::string architecture;  // "sm_90a", "compute_90", "cpu"

  // A binary from another compiler instead of source (PREBUILT): its bytes and the symbol of each
  // kernel step in order. Such a program is never compiled; its identity is these two fields and
  // the architecture. Filled by InstantiateProgram for prebuilt templates.
  std::string prebuilt_bytes;
  std::vector<std::string> prebuilt_symbols;
};

enum class ArtifactFormat { kCubin = 1, kPtx = 2, kHostElf = 3 };  // stored; never renumber
// "CUBIN", "PTX", "HOST_ELF".
std::string Name(ArtifactFormat format);

struct EntryResources {
  std::string symbol;
  int registers = 0;
  int64_t static_shared_bytes = 0;
  int64_t local_bytes = 0;
  int max_threads_per_block = 0;  // 0: not stated
};

struct Artifact {
  ArtifactFormat format = ArtifactFormat::kCubin;
  std::string bytes;
  std::string sha256;  // of bytes, hex
  std::string architecture;
  std::string builder;                               // "nvrtc 13.0.88"; provenance, not identity
  int min_driver = 0;                                // as cuDriverGetVersion counts; 0: any
  std::map<std::string, std::string> lowered_names;  // name expression -> symbol
  std::vector<EntryResources> resources;
  std::string log;  // warnings; bounded by the compiler
  int64_t log_truncated_bytes = 0;
  int64_t built_at_unix_ms = 0;

  // nullptr if the artifact states nothing about it.
  const EntryResources* FindResources(const std::string& symbol) const;
};

}  // namespace hone
