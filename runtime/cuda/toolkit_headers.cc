#include "runtime/cuda/toolkit_headers.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/files.h"
#include "runtime/base/sha256.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

// Names at the top of a root, as prefixes.
constexpr std::array<absl::string_view, 21> kHostLibraries = {
    "cublas",     "cudnn",     "cufft",  "cusolver", "cusparse", "cupti",  "nccl",
    "npp",        "nvblas",    "nvjpeg", "nvml",     "nvperf",   "nvrtc",  "nvtx",
    "nvToolsExt", "nvJitLink", "nvvm",   "thrust",   "Openacc",  "Openmp", "generated_"};

bool IsHostLibrary(absl::string_view name) {
  return std::any_of(kHostLibraries.begin(), kHostLibraries.end(),
                     [&](absl::string_view prefix) { return absl::StartsWith(name, prefix); });
}

// Relative name -> path, for one root. A root inside another (include/cccl) is not walked twice.
void Collect(const std::string& root, const std::vector<std::string>& roots,
             std::map<std::string, std::string>& files) {
  std::error_code error;
  fs::recursive_directory_iterator it(root, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const std::string path = it->path().string();
    const bool skip = (it.depth() == 0 && IsHostLibrary(it->path().filename().string())) ||
                      std::find(roots.begin(), roots.end(), path) != roots.end();
    std::error_code kind_error;
    if (it->is_directory(kind_error)) {
      if (skip) it.disable_recursion_pending();
      continue;
    }
    if (!skip && it->is_regular_file(kind_error)) {
      files.emplace(path.substr(root.size() + 1), path);
    }
  }
}

// The number in "#define NAME 13000".
int DefinedNumber(absl::string_view text, absl::string_view name) {
  const std::string define = absl::StrCat("#define ", name, " ");
  const size_t at = text.find(define);
  if (at == absl::string_view::npos) return 0;
  absl::string_view rest = absl::StripLeadingAsciiWhitespace(text.substr(at + define.size()));
  int number = 0;
  const size_t end = rest.find_first_not_of("0123456789");
  return absl::SimpleAtoi(rest.substr(0, end), &number) ? number : 0;
}

}  // namespace

std::string ToolkitHeadersVersion(const std::vector<std::string>& roots) {
  for (const std::string& root : roots) {
    for (const auto& [file, macro] : {std::pair<const char*, const char*>("cuda.h", "CUDA_VERSION"),
                                      {"cuda_runtime_api.h", "CUDART_VERSION"}}) {
      const auto text = ReadFile(JoinPath(root, file), 8 << 20);
      if (!text.ok()) continue;
      const int number = DefinedNumber(*text, macro);
      if (number > 0) return absl::StrCat(number / 1000, ".", number % 1000 / 10);
    }
  }
  return "";
}

std::string ToolkitHeadersDigest(const std::vector<std::string>& roots, const std::string& extra) {
  std::map<std::string, std::string> files;
  for (const std::string& root : roots) Collect(root, roots, files);
  Sha256 hash;
  hash.Update(absl::StrCat(extra.size(), "\n")).Update(extra);
  for (const auto& [name, path] : files) {
    // A header that cannot be read cannot be included either.
    const auto content = ReadFile(path);
    if (!content.ok()) continue;
    hash.Update(absl::StrCat(name, "\n", content->size(), "\n")).Update(*content);
  }
  return hash.FinishHex();
}

}  // namespace hone
