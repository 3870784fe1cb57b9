#include "runtime/compile/nvrtc_locate.h"

#include <glob.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/files.h"

namespace hone {
namespace {

std::vector<std::string> SplitPathList(const char* variable) {
  const char* value = ::getenv(variable);
  if (value == nullptr) return {};
  return absl::StrSplit(value, ':', absl::SkipEmpty());
}

// Matches in reverse order, so that of /usr/local/cuda-12.6 and cuda-13.0 the newer comes first.
std::vector<std::string> Glob(const std::string& pattern) {
  glob_t matches = {};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  ::globfree(&matches);
  std::reverse(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> LoaderDirectories() {
  std::vector<std::string> directories = SplitPathList("LD_LIBRARY_PATH");
  std::vector<std::string> configs = {"/etc/ld.so.conf"};
  for (const std::string& path : Glob("/etc/ld.so.conf.d/*.conf")) configs.push_back(path);
  for (const std::string& path : configs) {
    const auto text = ReadFile(path, 1 << 20);
    if (!text.ok()) continue;
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      line = absl::StripAsciiWhitespace(line);
      if (absl::StartsWith(line, "/")) directories.emplace_back(line);
    }
  }
  for (const char* path : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"}) {
    directories.emplace_back(path);
  }
  return directories;
}

std::vector<std::string> DefaultDirectories() {
  std::vector<std::string> directories = SplitPathList("HONE_NVRTC_DIRS");
  if (!directories.empty()) return directories;
  const std::string program = ExecutablePath();
  if (!program.empty()) {
    directories.push_back(JoinPath(DirectoryName(DirectoryName(program)), "lib"));
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* value = ::getenv(variable);
    if (value != nullptr && *value != '\0') directories.emplace_back(value);
  }
  directories.emplace_back("/usr/local/cuda");
  for (const std::string& path : Glob("/usr/local/cuda-*")) directories.push_back(path);
  for (const std::string& path : LoaderDirectories()) directories.push_back(path);
  return directories;
}

// The library directories of `directory`, whatever of the allowed kinds it is.
std::vector<std::string> LibraryDirectories(const std::string& directory) {
  std::vector<std::string> candidates;
  for (const char* part : {"", "lib64", "lib", "lib/x86_64-linux-gnu", "targets/x86_64-linux/lib",
                           "cuda_nvrtc/lib", "nvidia/cuda_nvrtc/lib"}) {
    candidates.push_back(*part == '\0' ? directory : JoinPath(directory, part));
  }
  for (const char* part : {"cu[0-9]*/lib", "nvidia/cu[0-9]*/lib"}) {
    for (const std::string& path : Glob(JoinPath(directory, part))) candidates.push_back(path);
  }
  return candidates;
}

// "libnvrtc.so.13", "libnvrtc.so.12.6.85"; not the unversioned link, the builtins or libnvrtc.alt.
bool IsNvrtc(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "libnvrtc.so.") || name.empty()) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.';
  });
}

// The toolkit's own headers and, where it is a directory of its own, CCCL's.
std::vector<std::string> IncludesFor(const std::string& library_directory) {
  const std::string parent = DirectoryName(library_directory);
  const std::string grandparent = DirectoryName(parent);
  std::vector<std::string> includes;
  const std::string wheel = JoinPath(grandparent, "cuda_runtime/include");
  for (const std::string& root :
       {JoinPath(parent, "include"), wheel, JoinPath(grandparent, "include")}) {
    if (!PathExists(JoinPath(root, "cuda_fp16.h"))) continue;
    includes.push_back(root);
    break;
  }
  if (includes.empty()) return includes;
  std::vector<std::string> beside = {JoinPath(includes.front(), "cccl")};
  // NVIDIA's wheels of CUDA 12 are directories side by side, with the crt headers in the
  // compiler's.
  if (includes.front() == wheel) {
    beside.push_back(JoinPath(grandparent, "cuda_cccl/include"));
    beside.push_back(JoinPath(grandparent, "cuda_nvcc/include"));
  }
  for (const std::string& root : beside) {
    if (IsDirectory(root)) includes.push_back(root);
  }
  for (std::string& include : includes) {
    if (auto resolved = RealPath(include); resolved.ok()) include = *std::move(resolved);
  }
  return includes;
}

}  // namespace

NvrtcSearch LocateNvrtc(const std::vector<std::string>& directories,
                        const std::vector<std::string>& headers) {
  NvrtcSearch search;
  std::set<std::string> seen_libraries;
  std::set<std::string> seen_directories;
  for (const std::string& directory : directories.empty() ? DefaultDirectories() : directories) {
    search.searched.push_back(directory);
    for (const std::string& path : LibraryDirectories(directory)) {
      const auto resolved_path = RealPath(path);
      if (!resolved_path.ok() || !seen_directories.insert(*resolved_path).second) continue;
      const auto names = ListDirectory(path);
      if (!names.ok()) continue;
      for (const std::string& name : *names) {
        if (!IsNvrtc(name)) continue;
        const auto library = RealPath(JoinPath(path, name));
        if (!library.ok() || !seen_libraries.insert(*library).second) continue;
        std::vector<std::string> includes = headers;
        if (includes.empty()) includes = IncludesFor(path);
        if (includes.empty()) includes = IncludesFor(DirectoryName(*library));
        search.found.push_back({*library, std::move(includes)});
      }
    }
  }
  return search;
}

}  // namespace hone
