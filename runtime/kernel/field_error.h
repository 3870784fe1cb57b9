// Errors about one field of a template or request, with the field's path.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hone {

// INVALID_ARGUMENT "steps[0].launch.grid_x: message". The path also travels as a payload, so that a
// catalog can point at the line of a textproto.
absl::Status FieldError(absl::string_view path, absl::string_view message);

// The same status with its message led by `path`; an OK status stays OK.
absl::Status AtField(absl::string_view path, const absl::Status& status);

// The path given to FieldError or AtField; nullopt without.
std::optional<std::string> FieldOf(const absl::Status& status);

}  // namespace hone
