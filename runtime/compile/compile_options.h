// The options a caller may pass to a compiler, and their one spelling.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

// Rewrites `options` to one token each ("--include-path=dirA", "--std=c++20", "--define-macro=X=1")
// in a fixed order, so that requests that mean the same have the same key and the same bytes.
// Options that may repeat (-I, -D, -U, diagnostics) keep their order among themselves. Accepts
// NVRTC's spellings: one or two dashes, short names, values after '=', attached to -I, -D, -U, or
// as the next element. Idempotent.
//
// INVALID_ARGUMENT names an option that is not allowed and lists those that are, or says what value
// it takes. Include directories are relative to the headers sent with the program. Options that
// read or write files of the caller's choosing are not on the list.
absl::StatusOr<std::vector<std::string>> NormalizeOptions(const std::vector<std::string>& options);

// "--std=c++20" -> {"--std", "c++20"}; flags have an empty value.
struct ParsedOption {
  std::string name;
  std::string value;
};
// REQUIRES: `normalized` is an element of NormalizeOptions' result.
ParsedOption SplitOption(absl::string_view normalized);

// Whether a macro can have this name: a C identifier in ASCII.
bool IsMacroName(absl::string_view text);

}  // namespace hone
