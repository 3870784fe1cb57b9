// Registered header sets as directories that compile workers may read.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"
#include "runtime/kernel/program.h"

namespace hone {

// The files of a set by its digest. NOT_FOUND for an unknown one. Called from any thread.
using HeaderSetResolver =
    std::function<absl::StatusOr<std::vector<SourceFile>>(const std::string& digest)>;

// Thread-safe. Sets are written once, on first use, and stay for the life of this object.
class HeaderSets {
 public:
  // `directory` exists and is this process's own. `resolver` may be empty: there are no sets then.
  HeaderSets(std::string directory, HeaderSetResolver resolver);

  // The directory of a set. INVALID_ARGUMENT for a malformed digest or file name; the resolver's
  // errors.
  absl::StatusOr<std::string> DirectoryOf(const std::string& digest);

  const std::string& directory() const { return directory_; }

 private:
  const std::string directory_;
  const HeaderSetResolver resolver_;
  // Held while a set is written: sets are few, and two callers of one must not both write it.
  Mutex mutex_;
  std::map<std::string, std::string> directories_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
