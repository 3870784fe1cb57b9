#include "tests/cpu/cpu_kernel.h"

#include <gtest/gtest.h>

#include "runtime/base/status_macros.h"
#include "runtime/cpu/host_compiler.h"

namespace hone {

Compiler& TheHostCompiler() {
  // Freed at exit, with its scratch directory.
  static const std::unique_ptr<Compiler> compiler = HostCompiler::Create({}).value();
  return *compiler;
}

CpuLauncher& TheLauncher() {
  static CpuLauncher launcher(3);
  return launcher;
}

absl::StatusOr<CompileOutcome> CompileForCpu(const std::string& source,
                                             const std::vector<std::string>& expressions,
                                             const std::vector<std::string>& options) {
  Program program;
  program.name = "kernel.cu";
  program.source = source;
  program.name_expressions = expressions;
  program.options = options;
  program.architecture = "cpu";
  return TheHostCompiler().Compile(program, {});
}

CpuKernel::CpuKernel(const std::string& source, const std::string& expression) {
  const auto load = [&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(const CompileOutcome outcome, CompileForCpu(source, {expression}));
    if (!outcome.artifact.has_value()) return absl::InvalidArgumentError(outcome.log);
    step_.symbol = outcome.artifact->lowered_names.at(expression);
    HONE_ASSIGN_OR_RETURN(module_, CpuModule::Load(outcome.artifact->bytes));
    return absl::OkStatus();
  };
  status_ = load();
}

}  // namespace hone
