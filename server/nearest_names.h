// Suggestions for a mistyped name.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone {

// Insertions, deletions and substitutions from one text to the other.
size_t EditDistance(absl::string_view a, absl::string_view b);

// At most `limit` of `known` that look like `name`, nearest first: within a third of its length, or
// containing it or contained in it. Without repeats.
std::vector<std::string> NearestNames(absl::string_view name, const std::vector<std::string>& known,
                                      size_t limit);

// For the end of an error's text: "did you mean softmax?", "there are 9, none of a similar name" or
// "there are no templates".
std::string Suggestion(absl::string_view name, const std::vector<std::string>& templates);

}  // namespace hone
