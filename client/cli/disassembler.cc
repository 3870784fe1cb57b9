#include "client/cli/disassembler.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

struct Tool {
  const char* name;
  const char* options;
};

constexpr Tool kCubinTools[] = {{"nvdisasm", "-c"}, {"cuobjdump", "-sass"}};
constexpr Tool kElfTools[] = {{"objdump", "-d --no-show-raw-insn"}};

std::string ShellQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// Standard output and error together.
absl::StatusOr<std::string> OutputOf(const std::string& command) {
  FILE* const pipe = popen(absl::StrCat(command, " 2>&1").c_str(), "re");
  if (pipe == nullptr) return absl::InternalError(absl::StrCat("cannot run ", command));
  std::string output;
  std::array<char, 1 << 16> piece;
  size_t got = 0;
  while ((got = fread(piece.data(), 1, piece.size(), pipe)) > 0) output.append(piece.data(), got);
  const int status = pclose(pipe);
  if (status != 0) return absl::InternalError(absl::StrCat(command, " failed:\n", output));
  return output;
}

}  // namespace

std::vector<std::string> ToolDirectories() {
  std::vector<std::string> directories;
  if (const char* path = std::getenv("PATH")) {
    for (absl::string_view each : absl::StrSplit(path, ':', absl::SkipEmpty())) {
      directories.emplace_back(each);
    }
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = std::getenv(variable)) directories.push_back(JoinPath(root, "bin"));
  }
  directories.push_back("/usr/local/cuda/bin");
  return directories;
}

absl::StatusOr<std::string> Disassemble(const v1::ArtifactInfo& info, const std::string& bytes,
                                        const std::vector<std::string>& directories) {
  if (info.format() == "PTX") {
    return absl::FailedPreconditionError(
        "this artifact is PTX, which has no machine code until a driver compiles it; --ptx prints "
        "it");
  }
  const bool cubin = info.format() == "CUBIN";
  const std::vector<Tool> tools =
      cubin ? std::vector<Tool>(std::begin(kCubinTools), std::end(kCubinTools))
            : std::vector<Tool>(std::begin(kElfTools), std::end(kElfTools));
  for (const Tool& tool : tools) {
    for (const std::string& directory : directories) {
      const std::string program = JoinPath(directory, tool.name);
      if (access(program.c_str(), X_OK) != 0) continue;
      HONE_ASSIGN_OR_RETURN(const TemporaryDirectory scratch, TemporaryDirectory::Create());
      const std::string file = JoinPath(scratch.path(), cubin ? "kernel.cubin" : "kernel.so");
      HONE_RETURN_IF_ERROR(WriteNewFile(file, bytes));
      return OutputOf(
          absl::StrCat(ShellQuoted(program), " ", tool.options, " ", ShellQuoted(file)));
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      cubin ? "SASS needs nvdisasm or cuobjdump, which are part of the CUDA toolkit (packages "
              "cuda-nvdisasm and cuda-cuobjdump)"
            : "machine code needs objdump (package binutils)",
      "; looked in ", absl::StrJoin(directories, ", ")));
}

}  // namespace hone::cli
