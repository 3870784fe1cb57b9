// The compile role of hone-worker: one compiler, one job at a time, confined.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hone {

struct CompileRoleOptions {
  std::string compiler = "nvrtc";                // or "host"
  std::string library;                           // of NVRTC
  std::string host_compiler;                     // program; empty: searched
  std::vector<std::string> include_directories;  // toolkit roots, in order
  std::string scratch_directory;                 // this worker's own, exists
  std::string header_sets_directory;             // readable; may be empty
  int64_t memory_bytes_max = 0;                  // address space; 0: unlimited
  int64_t file_bytes_max = int64_t{256} << 20;   // of each file written
  bool idle_priority = false;
};

// Serves CompileRequestMessage on `socket`, which it owns, until the peer closes it. Returns the
// exit code. A compiler that cannot be opened is not an end: describe and compile answer with the
// reason.
int RunCompileRole(int socket, const CompileRoleOptions& options);

}  // namespace hone
