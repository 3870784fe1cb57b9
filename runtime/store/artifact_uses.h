// Which artifacts are in use, and what was used since this was last written down. In memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/mutex.h"

namespace hone {

// Thread-safe. No call waits for anything but the others.
class ArtifactUses {
 public:
  ArtifactUses();

  void Note(const std::string& sha256);
  // The artifacts noted since the last call, each with the time of its last use, in microseconds
  // of the Unix epoch. No two times are equal, and later uses have later ones even if the clock is
  // set back.
  std::vector<std::pair<std::string, int64_t>> TakeNoted();
  // Noted since then.
  bool IsNoted(const std::string& sha256) const;

  // Held until the returned object is gone; it may outlive this one.
  std::shared_ptr<const void> Hold(const std::string& sha256);
  bool IsHeld(const std::string& sha256) const;

 private:
  struct Holds {
    Mutex mutex;
    absl::flat_hash_map<std::string, int> counts ABSL_GUARDED_BY(mutex);
  };

  const std::shared_ptr<Holds> holds_;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, int64_t> noted_ ABSL_GUARDED_BY(mutex_);
  int64_t last_unix_us_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hone
