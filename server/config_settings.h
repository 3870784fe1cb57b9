// Every setting of the daemon: its names, its help, how it is read and printed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/config.h"

namespace hone {

struct Setting {
  // "cache-dir"; the variable is HONE_CACHE_DIR, the key in the file cache_dir.
  std::string name;
  std::string placeholder;
  std::string help;
  // INVALID_ARGUMENT says what would be right.
  absl::Status (*apply)(const std::string& text, DaemonConfig& config);
  std::string (*print)(const DaemonConfig& config);

  std::string variable() const;
  std::string key() const;
};

const std::vector<Setting>& Settings();

}  // namespace hone
