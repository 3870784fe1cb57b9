// Saves in a template's directory, by inotify.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/unique_fd.h"

namespace hone::cli {

class FileWatch {
 public:
  // Sees files written or moved into `directory`, which is what editors do.
  static absl::StatusOr<FileWatch> Create(const std::string& directory);

  // True when something was saved since the last call; does not wait.
  bool Poll();
  // Waits for a save and then until none has come for a moment: editors write more than once.
  void Wait();

 private:
  explicit FileWatch(UniqueFd fd) : fd_(std::move(fd)) {}
  // True if events arrived within `timeout`; reads them all.
  bool Drain(absl::Duration timeout);

  UniqueFd fd_;
};

}  // namespace hone::cli
