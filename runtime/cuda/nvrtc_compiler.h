// One program at a time through NVRTC, in a compile worker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/compile/compiler.h"
#include "runtime/cuda/nvrtc_library.h"

namespace hone {

// The Compiler interface inside a worker: Program::header_sets holds directories, options are
// normalised, and limits are the pool's business. Not thread-safe: the process's working directory
// is part of a compile.
//
// Every compile gets, in this order: the architecture, no disk cache of NVRTC's own, C++20 unless
// the options say otherwise, the caller's options, the include roots (the caller's, the headers
// sent, header sets, StandardHeaders(), the toolkit), the defines. CUBIN for sm_NN, PTX for
// compute_NN.
class NvrtcCompiler : public Compiler {
 public:
  struct Options {
    std::vector<std::string> include_directories;  // toolkit roots
    std::string scratch_directory;                 // this process's own, exists
  };

  // Writes StandardHeaders() into the scratch directory.
  static absl::StatusOr<std::unique_ptr<NvrtcCompiler>> Create(
      std::unique_ptr<NvrtcLibrary> library, Options options);

  absl::StatusOr<CompileOutcome> Compile(const Program& program,
                                         const CompileOptions& options) override;
  int parallelism() const override { return 1; }
  // Compiles a trivial kernel as a self-test and reads the toolkit's headers for their digest.
  std::vector<CompilerInfo> Compilers() const override;
  absl::StatusOr<CompilerInfo> Select(const std::string& architecture,
                                      int driver_version) const override;

 private:
  class NvrtcProgram;

  NvrtcCompiler(std::unique_ptr<NvrtcLibrary> library, Options options);
  // Whether NVRTC works here, and its full build, which only the header of a PTX states.
  absl::Status SelfTest();
  absl::StatusOr<std::string> CompileTrivialPtx(bool no_cache) const;
  absl::Status CheckArchitecture(const std::string& architecture) const;
  std::vector<std::string> Arguments(const Program& program) const;
  absl::StatusOr<CompileOutcome> Run(const Program& program, const std::string& tree);
  CompileOutcome Failed(const Program& program, std::string log) const;
  absl::StatusOr<Artifact> MakeArtifact(const NvrtcProgram& compiled, const Program& program) const;
  std::string Annotate(std::string log, const Program& program) const;
  std::string HeadersMismatch() const;

  const std::unique_ptr<NvrtcLibrary> library_;
  const Options options_;
  const std::string standard_headers_directory_;
  absl::Status self_test_;
  bool no_cache_ = true;  // the option exists since CUDA 12.9
  std::string build_;     // "13.0.88"
};

}  // namespace hone
