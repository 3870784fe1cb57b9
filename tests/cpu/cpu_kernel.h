// Compiles a kernel with the real host compiler and launches it, for tests.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/compile/compiler.h"
#include "runtime/launch/cpu_launcher.h"

namespace hone {

// The one compiler of a test program; it starts with a precompiled header after a few kernels.
Compiler& TheHostCompiler();
// Several hardware threads whatever this machine has, so that blocks do run side by side.
CpuLauncher& TheLauncher();

absl::StatusOr<CompileOutcome> CompileForCpu(const std::string& source,
                                             const std::vector<std::string>& expressions,
                                             const std::vector<std::string>& options = {});

// One compiled kernel. Errors of compiling are in status().
class CpuKernel {
 public:
  CpuKernel(const std::string& source, const std::string& expression);

  const absl::Status& status() const { return status_; }

  CpuKernel& Grid(uint32_t x, uint32_t y = 1, uint32_t z = 1) { return Set(step_.grid, x, y, z); }
  CpuKernel& Block(uint32_t x, uint32_t y = 1, uint32_t z = 1) { return Set(step_.block, x, y, z); }
  CpuKernel& Shared(uint32_t bytes) {
    step_.dynamic_shared_bytes = bytes;
    return *this;
  }

  // Vectors are passed as pointers to their elements, everything else by value.
  template <typename... Arguments>
  absl::Status Launch(const Arguments&... arguments) {
    if (!status_.ok()) return status_;
    step_.arguments = {Pack(arguments)...};
    return TheLauncher().Launch(*module_, ResolvedLaunch{{step_}, {}});
  }

  CpuModule& module() { return *module_; }

 private:
  CpuKernel& Set(std::array<uint32_t, 3>& to, uint32_t x, uint32_t y, uint32_t z) {
    to = {x, y, z};
    return *this;
  }
  template <typename T>
  static PackedArgument Pack(const T& value) {
    PackedArgument packed;
    packed.bytes.resize(sizeof value);
    std::memcpy(packed.bytes.data(), &value, sizeof value);
    return packed;
  }
  template <typename T>
  static PackedArgument Pack(const std::vector<T>& values) {
    return Pack(values.data());
  }

  absl::Status status_;
  ResolvedStep step_;
  std::unique_ptr<CpuModule> module_;
};

}  // namespace hone
