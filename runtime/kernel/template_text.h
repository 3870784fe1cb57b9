// Text inside templates: names, `${NAME}` placeholders, and what may stand in files and fields.
#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/utf8.h"
#include "runtime/kernel/value.h"

namespace hone {

// [A-Za-z_][A-Za-z0-9_]{0,63}.
bool IsIdentifier(absl::string_view text);

// One line (or, with `lines`, several) of printable UTF-8, at most `bytes_max` long.
absl::Status CheckText(absl::string_view path, absl::string_view text, size_t bytes_max,
                       bool lines = false);

// A relative path below its directory: no "..", no leading "/", no empty or "." component.
absl::Status CheckFileName(absl::string_view path, absl::string_view name);

// Names in `${NAME}` of `text`. INVALID_ARGUMENT for a "${" that is not closed.
absl::StatusOr<std::set<std::string>> PlaceholdersOf(absl::string_view text);

// `text` with every `${NAME}` replaced. INVALID_ARGUMENT names one that is not in `spellings`.
absl::StatusOr<std::string> Substitute(absl::string_view text,
                                       const std::map<std::string, std::string>& spellings);

}  // namespace hone
