// Names of compile targets: "sm_90a", "compute_90", "cpu".
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/kernel/kernel_template.h"

namespace hone {

struct Architecture {
  bool cpu = false;
  bool ptx = false;  // compute_NN
  int version = 0;   // 90
  char suffix = 0;   // 'a', 'f' or 0
};

// INVALID_ARGUMENT says what a name looks like.
absl::StatusOr<Architecture> ParseArchitecture(absl::string_view text);

// OK if the architecture has the feature; else FAILED_PRECONDITION says which have it.
absl::Status CheckFeature(Feature feature, const Architecture& architecture,
                          absl::string_view text);

}  // namespace hone
