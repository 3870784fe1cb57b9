#include "runtime/compile/source_tree.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone {

absl::StatusOr<SourceTree> SourceTree::Create(const std::string& directory,
                                              const Program& program) {
  HONE_RETURN_IF_ERROR(RemoveTree(directory));
  HONE_RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  SourceTree tree(directory);
  for (const SourceFile& header : program.headers) {
    if (absl::Status status = CheckRelativePath(header.name); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("headers: ", status.message()));
    }
    const std::string path = JoinPath(directory, header.name);
    absl::Status status = MakeDirectories(DirectoryName(path), 0700);
    if (status.ok()) status = WriteNewFile(path, header.content);
    if (status.ok()) continue;
    if (absl::IsAlreadyExists(status) || PathExists(path)) {
      return absl::InvalidArgumentError(
          absl::StrCat("headers: '", header.name, "' is given twice, or as file and directory"));
    }
    return status;
  }
  return tree;
}

SourceTree::SourceTree(SourceTree&& other) noexcept : root_(std::exchange(other.root_, "")) {}

SourceTree::~SourceTree() {
  // Best effort: the next tree at this place removes what is left.
  if (!root_.empty()) RemoveTree(root_).IgnoreError();
}

std::string ScrubPaths(const std::string& log, const std::vector<std::string>& directories) {
  std::vector<std::pair<std::string, std::string>> replacements;
  for (const std::string& directory : directories) {
    replacements.emplace_back(absl::StrCat(directory, "/"), "");
  }
  const std::string scrubbed = absl::StrReplaceAll(log, replacements);
  std::vector<absl::string_view> lines = absl::StrSplit(scrubbed, '\n');
  for (absl::string_view& line : lines) {
    while (absl::ConsumePrefix(&line, "./")) {
    }
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace hone
