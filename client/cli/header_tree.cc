#include "client/cli/header_tree.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

// The daemon takes no larger set; a mistyped path must not fill memory.
constexpr int64_t kBytesMax = 64 << 20;
constexpr size_t kFilesMax = 20'000;

// The tree by the names of its files, sorted.
using Tree = std::map<std::string, std::string>;

bool Wanted(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& pattern) {
           return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
         });
}

absl::Status Unreadable(const std::string& path, const std::error_code& error) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.message()));
}

absl::Status AddPaths(const std::string& directory, const std::vector<std::string>& only,
                      Tree& paths) {
  std::error_code error;
  fs::recursive_directory_iterator it(directory, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code gone;  // also a link that leads nowhere
    if (it->path().filename().string().front() == '.') {
      it.disable_recursion_pending();
      continue;
    }
    if (!it->is_regular_file(gone)) continue;
    const std::string name = it->path().lexically_relative(directory).string();
    if (!Wanted(name, only)) continue;
    const auto [other, inserted] = paths.emplace(name, it->path());
    if (!inserted) {
      return absl::InvalidArgumentError(absl::StrCat(
          it->path().string(), ": ", other->second, " has the same name, ", name,
          "; a set has one file of a name, so leave one out with --only or make two sets"));
    }
    if (paths.size() > kFilesMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat(directory, ": there are more than the ", kFilesMax,
                       " files a header set may have; narrow it, for instance with --only '*.h'"));
    }
  }
  return error ? Unreadable(directory, error) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<v1::SourceFile>> ReadHeaderTrees(
    const std::vector<std::string>& directories, const std::vector<std::string>& only) {
  Tree paths;
  for (const std::string& directory : directories) {
    HONE_RETURN_IF_ERROR(AddPaths(directory, only, paths));
  }
  if (paths.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::StrJoin(directories, ", "), ": ",
                     only.empty() ? "there is no file" : "no file matches --only"));
  }
  std::vector<v1::SourceFile> files;
  int64_t bytes = 0;
  for (const auto& [name, path] : paths) {
    HONE_ASSIGN_OR_RETURN(std::string content, ReadFile(path, kBytesMax));
    bytes += static_cast<int64_t>(name.size() + content.size());
    if (bytes > kBytesMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": up to here there are more than the ", kBytesMax >> 20,
                       " MiB a header set may have; narrow it, for instance with --only '*.h'"));
    }
    v1::SourceFile& file = files.emplace_back();
    file.set_name(name);
    file.set_content(std::move(content));
  }
  return files;
}

}  // namespace hone::cli
