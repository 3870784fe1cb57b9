// Errors as people see them.
#pragma once

#include <ostream>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hone::cli {

// The command line itself is wrong: exit code 64, which it also is when the daemon finds it wrong
// (INVALID_ARGUMENT).
absl::Status UsageError(absl::string_view message);
// The daemon could not be asked, whatever the reason: exit code 2.
absl::Status Unreachable(absl::Status status);

// What stands in a file is wrong, not the command line: exit code 1, even where the daemon calls it
// INVALID_ARGUMENT.
absl::Status InFile(absl::Status status);

// Prints nothing for OK, else the message with the facts that came with it; returns the exit code.
int ReportAndExitCode(const absl::Status& status, std::ostream& out);

}  // namespace hone::cli
