// Whole files and directory trees. Errors name the path and what the system said.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

// "`what` PATH: No such file or directory" with the canonical code for errno value `error`.
absl::Status ErrnoStatus(int error, absl::string_view what, absl::string_view path = "");

// Regular files only, so that a FIFO or a device cannot block the caller (INVALID_ARGUMENT). A file
// of more than `bytes_max` bytes is RESOURCE_EXHAUSTED.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t bytes_max = int64_t{256} << 20);

// Files of /proc and cgroups state no size and are read as they come.
absl::StatusOr<std::string> ReadKernelFile(const std::string& path);

// Replaces `path`; readers see the old content or the new, never a part. The content is on disk
// when this returns, and a failure leaves the old file.
absl::Status WriteFileAtomic(const std::string& path, absl::string_view content,
                             mode_t mode = 0644);

// Plain write of a new file, for scratch trees. Fails with ALREADY_EXISTS.
absl::Status WriteNewFile(const std::string& path, absl::string_view content, mode_t mode = 0644);

// mkdir -p; OK if it is there.
absl::Status MakeDirectories(const std::string& path, mode_t mode = 0755);

// Removes a file or a tree without following links. OK if it is not there.
absl::Status RemoveTree(const std::string& path);

// Names in a directory without "." and "..", sorted.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

bool PathExists(const std::string& path);
bool IsDirectory(const std::string& path);
// With links resolved; NOT_FOUND.
absl::StatusOr<std::string> RealPath(const std::string& path);
std::string JoinPath(absl::string_view directory, absl::string_view name);
std::string DirectoryName(absl::string_view path);
std::string BaseName(absl::string_view path);
// The file this process runs.
std::string ExecutablePath();

// A relative path that stays below its root: no leading '/', no "..", no empty or "." component, no
// NUL, backslash or control character. OK, or INVALID_ARGUMENT that says which.
absl::Status CheckRelativePath(absl::string_view path);

// A private directory (mode 0700) that is removed with this object. Move-only.
class TemporaryDirectory {
 public:
  // Makes PARENT/PREFIX-XXXXXX; an empty parent means $TMPDIR or /tmp.
  static absl::StatusOr<TemporaryDirectory> Create(const std::string& parent = "",
                                                   const std::string& prefix = "hone");
  TemporaryDirectory() = default;
  TemporaryDirectory(TemporaryDirectory&& other) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept;
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace hone
