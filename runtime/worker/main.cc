// hone-worker: the process in which foreign code runs. Started by honed with a socket at
// descriptor 3.
#include <sys/stat.h>

#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "runtime/base/subprocess.h"
#include "runtime/worker/compile_role.h"
#include "runtime/worker/measure_role.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace {

// Run by hand there is no daemon to talk to.
bool HasDaemon() {
  struct stat info = {};
  return ::fstat(hone::kChildSocketFd, &info) == 0 && S_ISSOCK(info.st_mode);
}

void AddCompileOptions(CLI::App& app, hone::CompileRoleOptions& options) {
  app.add_option("--compiler", options.compiler, "nvrtc or host")
      ->check(CLI::IsMember({"nvrtc", "host"}));
  app.add_option("--library", options.library, "path of libnvrtc");
  app.add_option("--host-compiler", options.host_compiler, "path of the C++ compiler");
  app.add_option("--include", options.include_directories, "root of CUDA headers; repeats");
  app.add_option("--scratch", options.scratch_directory, "this worker's own directory")->required();
  app.add_option("--header-sets", options.header_sets_directory, "directory of header sets");
  app.add_option("--memory-bytes", options.memory_bytes_max, "address space; 0: unlimited");
  app.add_flag("--idle-priority", options.idle_priority, "give way to everything else");
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("hone-worker"));
  CLI::App app{"Runs compilers or kernels for honed, which starts it; not for use by hand."};
  app.require_subcommand(1);
  hone::CompileRoleOptions compile;
  CLI::App* compile_role = app.add_subcommand("compile", "compile programs");
  AddCompileOptions(*compile_role, compile);
  app.add_subcommand("measure", "run and time kernels on a device");
  CLI11_PARSE(app, argc, argv);
  if (!HasDaemon()) {
    std::cerr << "hone-worker is started by honed, with a socket at descriptor "
              << hone::kChildSocketFd << "\n";
    return 64;
  }
  if (compile_role->parsed()) return hone::RunCompileRole(hone::kChildSocketFd, compile);
  return hone::RunMeasureRole(hone::kChildSocketFd);
}
