// A file that appears whole or not at all, written piece by piece.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/unique_fd.h"

namespace hone {

// Move-only. Not thread-safe. What is not committed is removed again.
class AtomicFile {
 public:
  // Makes a file beside `path`, so that the rename stays on one file system. A symbolic link at
  // `path` is followed; FAILED_PRECONDITION when something else than a file is there, such as a
  // device or a pipe, which a rename would replace.
  static absl::StatusOr<AtomicFile> Create(std::string path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  absl::Status Write(absl::string_view bytes);
  // Replaces `path`: readers see the old content or the new, never a part, and the new one is on
  // disk when this returns. A failure leaves the old file. Nothing is written after it.
  absl::Status Commit(mode_t mode = 0644);

 private:
  AtomicFile(UniqueFd fd, std::string path, std::string temporary)
      : fd_(std::move(fd)), path_(std::move(path)), temporary_(std::move(temporary)) {}

  UniqueFd fd_;
  std::string path_;
  std::string temporary_;  // empty: committed, or moved away
};

}  // namespace hone
