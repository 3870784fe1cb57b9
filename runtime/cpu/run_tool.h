// One run of a tool to its end, with its standard error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/subprocess.h"

namespace hone {

struct ToolRun {
  ExitStatus exit;
  std::string log;  // standard error, the first `log_bytes_max` bytes
  int64_t log_dropped_bytes = 0;
  bool timed_out = false;  // it and everything it started were killed
};

struct ToolOptions {
  std::string directory;             // working directory
  std::vector<std::string> command;  // path of the program, then its arguments
  std::vector<std::string> environment;
  absl::Duration timeout = absl::Seconds(60);
  int64_t log_bytes_max = 16 << 20;
};

// Also limits processor time to a finite timeout, so that what it started ends even if this process
// is killed first. Errors are about starting it.
absl::StatusOr<ToolRun> RunTool(const ToolOptions& options);

}  // namespace hone
