// The host compiler and the CUDA headers that programs for the CPU device are compiled with.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace hone {

struct HostToolchain {
  std::string compiler;                          // path
  bool is_gcc = false;                           // else Clang
  std::string version;                           // "g++ 12.2.0"
  std::vector<std::string> include_directories;  // the toolkit's
  int cuda_version = 0;                          // of its cuda.h
  std::string headers_digest;  // of the headers that programs may see, and of ours
  int isa_level = 0;           // x86-64 level compiled for: 3 where this CPU has it, else 0
  // FAILED_PRECONDITION says what was looked for and where.
  absl::Status status;
};

// `compiler` and `include_directories` override the search when not empty. The compiler is
// $HONE_HOST_CXX, else g++ and clang++ on PATH, first of the version that built this program; the
// headers are those of $CUDA_HOME or $CUDA_PATH, ../include/cuda beside the program,
// /usr/local/cuda, or of the build. Runs the compiler once for its version.
HostToolchain FindHostToolchain(const std::string& compiler,
                                const std::vector<std::string>& include_directories);

}  // namespace hone
