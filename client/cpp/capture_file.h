// The file into which one process records its launches, and the contents of buffers beside it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/unique_fd.h"

namespace hone {

// One line on standard error, unless it would have to wait for a reader. No signal comes of it.
void SayOnStandardError(absl::string_view line);

// DIRECTORY/capture-PID-RANDOM.pbtxt, mode 0600, made by this process and nobody else: what stands
// under its name is never opened. Writes are not synced to the disk, so that they take no longer
// than a copy. Move-only; Append and Replace are for one thread at a time, the others thread-safe.
// Errors name the path.
class CaptureFile {
 public:
  // Makes the directory, mode 0700, if it is not there.
  static absl::StatusOr<CaptureFile> Create(const std::string& directory);

  // Whole lines. Nothing of them stays when this fails.
  absl::Status Append(absl::string_view text);
  // Readers see the old text or the new. A failure leaves the old file.
  absl::Status Replace(absl::string_view text);

  // A file beside this one, named after it: "capture-1-2a.LABEL". ALREADY_EXISTS for a label used
  // before. Nothing stays when this fails. Returns the name.
  absl::StatusOr<std::string> WriteBeside(absl::string_view label, absl::string_view bytes) const;
  void RemoveBeside(const std::string& name) const;

  // With the directory as it was given.
  std::string path() const;

 private:
  CaptureFile(std::string directory, UniqueFd directory_fd)
      : directory_(std::move(directory)), directory_fd_(std::move(directory_fd)) {}

  std::string directory_;
  UniqueFd directory_fd_;
  std::string stem_;  // "capture-1-2a"
  UniqueFd fd_;
  int64_t size_bytes_ = 0;
};

}  // namespace hone
