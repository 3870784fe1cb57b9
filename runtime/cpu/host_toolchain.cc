#include "runtime/cpu/host_toolchain.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/files.h"
#include "runtime/base/sha256.h"
#include "runtime/base/subprocess.h"
#include "runtime/cpu/embedded_headers.h"
#include "runtime/cpu/run_tool.h"
#include "runtime/launch/cpu_host.h"

namespace hone {
namespace {

std::string Environment(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

// The path of `program` on PATH, or "".
std::string OnPath(const std::string& program) {
  if (absl::StrContains(program, '/')) {
    return ::access(program.c_str(), X_OK) == 0 ? program : "";
  }
  for (absl::string_view directory : absl::StrSplit(Environment("PATH"), ':', absl::SkipEmpty())) {
    std::string path = JoinPath(directory, program);
    if (!IsDirectory(path) && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::vector<std::string> CompilerNames() {
#if defined(__clang__)
  const std::string major = absl::StrCat(__clang_major__);
  return {absl::StrCat("clang++-", major), "clang++", "g++"};
#else
  const std::string major = absl::StrCat(__GNUC__);
  return {absl::StrCat("g++-", major), "g++", absl::StrCat("clang++-", major), "clang++"};
#endif
}

void FindCompiler(const std::string& given, HostToolchain& tools) {
  std::vector<std::string> names = {given};
  if (given.empty()) names = {Environment("HONE_HOST_CXX")};
  if (names.front().empty()) names = CompilerNames();
  for (const std::string& name : names) {
    tools.compiler = OnPath(name);
    if (!tools.compiler.empty()) return;
  }
  tools.status = absl::FailedPreconditionError(
      absl::StrCat("no host compiler for the CPU device: looked for ", absl::StrJoin(names, ", "),
                   " on PATH; install g++ or set HONE_HOST_CXX"));
}

// Preprocesses a text that names the compiler's own macros; both compilers tell the truth there.
void ReadVersion(HostToolchain& tools) {
  ToolOptions options;
  options.directory = "/";
  options.command = {tools.compiler, "-###", "-x", "c++", "-E", "/dev/null"};
  options.environment = EnvironmentWithout({"LC_", "LANG"});
  options.environment.push_back("LC_ALL=C");
  options.timeout = absl::Seconds(20);
  const absl::StatusOr<ToolRun> run = RunTool(options);
  if (!run.ok() || !run->exit.success()) {
    tools.status = absl::FailedPreconditionError(absl::StrCat(
        "host compiler ", tools.compiler, " does not run: ",
        run.ok() ? absl::StrCat(run->exit.ToString(), " ", run->log) : run.status().ToString()));
    return;
  }
  for (absl::string_view line : absl::StrSplit(run->log, '\n')) {
    // "gcc version 12.2.0 (Debian 12.2.0-14)", "Debian clang version 14.0.6".
    const size_t at = line.find(" version ");
    if (at == absl::string_view::npos) continue;
    tools.is_gcc = absl::StartsWith(line, "gcc version ");
    const absl::string_view rest = line.substr(at + 9);
    tools.version =
        absl::StrCat(tools.is_gcc ? "g++ " : "clang++ ", rest.substr(0, rest.find(' ')));
    return;
  }
  tools.status = absl::FailedPreconditionError(
      absl::StrCat("host compiler ", tools.compiler, " does not tell its version"));
}

bool HoldsToolkit(const std::string& directory) {
  return PathExists(JoinPath(directory, "cuda_fp16.h")) &&
         PathExists(JoinPath(directory, "vector_types.h"));
}

void FindHeaders(const std::vector<std::string>& given, HostToolchain& tools) {
  tools.include_directories = given;
  if (!given.empty()) return;
  std::vector<std::string> candidates;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = Environment(variable);
    if (!root.empty()) candidates.push_back(JoinPath(root, "include"));
  }
  const std::string prefix = DirectoryName(DirectoryName(ExecutablePath()));
  candidates.push_back(JoinPath(prefix, "include/cuda"));
  candidates.emplace_back("/usr/local/cuda/include");
  candidates.emplace_back(HONE_BUILD_CUDA_INCLUDE);
  for (const std::string& directory : candidates) {
    if (!HoldsToolkit(directory)) continue;
    tools.include_directories = {directory};
    // <nv/target> may lie apart, with the C++ core libraries.
    const std::string cccl = JoinPath(directory, "cccl");
    if (IsDirectory(cccl)) tools.include_directories.push_back(cccl);
    return;
  }
  tools.status = absl::FailedPreconditionError(
      absl::StrCat("no CUDA headers for the CPU device: looked for cuda_fp16.h in ",
                   absl::StrJoin(candidates, ", "), "; install a toolkit or set CUDA_HOME"));
}

void ReadHeaders(HostToolchain& tools) {
  Sha256 digest;
  for (const EmbeddedFile& file : CudaOnCpuHeaders()) digest.Update(file.name).Update(file.content);
  const std::string& root = tools.include_directories.front();
  for (const char* name :
       {"cuda_bf16.h", "cuda_bf16.hpp", "cuda_fp16.h", "cuda_fp16.hpp", "cuda_fp8.h",
        "cuda_fp8.hpp", "vector_functions.h", "vector_functions.hpp", "vector_types.h"}) {
    digest.Update(name).Update(ReadFile(JoinPath(root, name)).value_or(""));
  }
  digest.Update(absl::StrCat("isa ", tools.isa_level));
  tools.headers_digest = digest.FinishHex();
  const std::string cuda_h = ReadFile(JoinPath(root, "cuda.h")).value_or("");
  constexpr absl::string_view kDefine = "#define CUDA_VERSION ";
  const size_t at = cuda_h.find(std::string(kDefine));
  if (at == std::string::npos) return;
  const std::string digits = cuda_h.substr(at + kDefine.size(), 8);
  if (!absl::SimpleAtoi(digits.substr(0, digits.find_first_not_of("0123456789")),
                        &tools.cuda_version)) {
    tools.cuda_version = 0;
  }
}

}  // namespace

HostToolchain FindHostToolchain(const std::string& compiler,
                                const std::vector<std::string>& include_directories) {
  HostToolchain tools;
  tools.isa_level = HostIsaLevel();
  FindCompiler(compiler, tools);
  if (tools.status.ok()) ReadVersion(tools);
  if (tools.status.ok()) FindHeaders(include_directories, tools);
  if (tools.status.ok()) ReadHeaders(tools);
  return tools;
}

}  // namespace hone
