// Compiles programs for the CPU reference device with the host's C++ compiler.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/files.h"
#include "runtime/base/mutex.h"
#include "runtime/compile/compiler.h"
#include "runtime/cpu/host_toolchain.h"

namespace hone {

struct HostCompilerOptions {
  // Where sources and objects lie while they are compiled; must be this process's own. Empty: a
  // private temporary directory.
  std::string scratch_directory;
  // Path of the compiler and the toolkit's include roots; empty: searched for.
  std::string compiler;
  std::vector<std::string> include_directories;
  // The directory of a registered header set; absent: programs with header sets are refused.
  std::function<absl::StatusOr<std::string>(const std::string& digest)> header_set_directory;
  int64_t log_bytes_max = 1 << 20;
};

// The Compiler for architecture "cpu", to be run in a compile worker: the compiler it starts is
// foreign code. Gives HOST_ELF artifacts whose lowered names CpuLauncher finds. Static shared
// memory is limited as on a GPU; what is not in the source's own includes (<cuda_fp16.h>) is not
// visible, as with NVRTC. Thread-safe.
class HostCompiler : public Compiler {
 public:
  // Succeeds without a usable compiler too: Compilers() then says what is missing and Compile is
  // FAILED_PRECONDITION. Errors are about the scratch directory.
  static absl::StatusOr<std::unique_ptr<Compiler>> Create(HostCompilerOptions options);

  absl::StatusOr<CompileOutcome> Compile(const Program& program,
                                         const CompileOptions& options) override;
  int parallelism() const override { return 1; }
  std::vector<CompilerInfo> Compilers() const override { return {info_}; }
  absl::StatusOr<CompilerInfo> Select(const std::string& architecture,
                                      int driver_version) const override;

 private:
  struct Entry {
    std::string expression;
    std::string symbol;
  };

  HostCompiler(HostCompilerOptions options, HostToolchain tools);
  absl::Status WriteHeaders();

  absl::StatusOr<std::vector<std::string>> Command(const Program& program,
                                                   const std::string& source,
                                                   const std::string& output);
  std::vector<std::string> BaseFlags(const std::string& standard) const;
  std::vector<std::string> Environment() const;
  // The directory of a precompiled prelude with what `source` includes of the toolkit, or "" while
  // there is none. Made at the second program of a kind, since a worker may only ever see one.
  std::string PreludeFor(const std::string& source, const std::string& standard);
  absl::StatusOr<CompileOutcome> Finish(const Program& program, const std::vector<Entry>& entries,
                                        const std::string& elf_path, CompileOutcome outcome) const;

  const HostCompilerOptions options_;
  const HostToolchain tools_;
  CompilerInfo info_;
  TemporaryDirectory temporary_;
  std::string scratch_;
  std::atomic<int> next_job_{0};

  Mutex mutex_;
  std::set<std::string> seen_preludes_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> preludes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
