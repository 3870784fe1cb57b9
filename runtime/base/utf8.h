// UTF-8 checks for text that comes from outside and goes into messages.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace hone {

// No overlong forms, surrogates or values above U+10FFFF.
bool IsValidUtf8(absl::string_view text);

// Every byte that is not part of a valid sequence becomes '?'; NUL stays.
std::string ReplaceInvalidUtf8(absl::string_view text);

}  // namespace hone
