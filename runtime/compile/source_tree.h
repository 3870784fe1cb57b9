// The headers sent with one program as files, for compilers that search directories.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/kernel/program.h"

namespace hone {

// Writes program.headers below a fresh directory and removes it with this object. Inside, "-I dirA"
// is simply a relative directory. Move-only, not thread-safe.
class SourceTree {
 public:
  // Replaces DIRECTORY, which must be this process's own. INVALID_ARGUMENT for names that would
  // leave it or are both a file and a directory.
  static absl::StatusOr<SourceTree> Create(const std::string& directory, const Program& program);

  SourceTree(SourceTree&& other) noexcept;
  SourceTree& operator=(SourceTree&&) = delete;
  ~SourceTree();

  const std::string& root() const { return root_; }

 private:
  explicit SourceTree(std::string root) : root_(std::move(root)) {}
  std::string root_;
};

// Gives names in a compiler's log back as the caller knows them: each of `directories`
// followed by '/' are dropped, and "./" at the head of a line.
std::string ScrubPaths(const std::string& log, const std::vector<std::string>& directories);

}  // namespace hone
