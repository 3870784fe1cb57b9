// The daemon's settings: flags over HONE_* variables over a TOML file over defaults.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace hone {

// Which devices the daemon offers. kAuto: the CUDA devices, else the CPU reference device.
enum class DeviceChoice { kAuto, kCpu, kCuda, kNone };

struct DaemonConfig {
  std::string listen;  // "unix:PATH"
  mode_t socket_mode = 0660;
  std::string socket_group;  // empty: the process's
  std::string admin_group;   // empty: none
  std::string cache_dir;
  std::string kernels_dir;  // empty: no catalog was found
  DeviceChoice device = DeviceChoice::kAuto;
  int workers = 0;  // compile workers; 0: what the machine carries
  absl::Duration compile_timeout = absl::Seconds(60);
  int64_t compile_log_bytes = int64_t{256} << 10;
  int64_t store_bytes_max = 10'000'000'000;  // 0: no bound
  absl::Duration launch_timeout = absl::Seconds(10);
  absl::Duration drain_timeout = absl::Seconds(10);
  std::string measure_cache = "cold";    // MeasuringPolicy::Cache
  std::string tune_when = "on_request";  // TuneWhen
  int64_t tune_memory_bytes_max = 0;     // of device memory; 0: what there is
  int tune_duty_percent = 100;
  std::string log_level = "info";
  std::string log_format = "text";

  // The path in `listen`.
  std::string socket_path() const;
};

// BSD's sysexits, which shells and service managers know.
inline constexpr int kExitUsage = 64;
inline constexpr int kExitTemporary = 75;
inline constexpr int kExitConfig = 78;

// What a command line comes to: run with `config`, or print `text` and exit.
struct ConfigOutcome {
  std::optional<int> exit_code;
  std::string text;  // for standard output when exit_code is 0, else for standard error
  DaemonConfig config;
};

// Where settings come from besides the command line; tests give their own.
struct ConfigEnvironment {
  std::function<std::optional<std::string>(const std::string& name)> variable;
  std::string executable;    // of this process: kernels are looked for near it
  std::string default_file;  // read when it exists and no other is named

  static ConfigEnvironment OfProcess();
};

// A bad flag gives kExitUsage; a bad variable or file, or a value in them, kExitConfig. Every
// message names the setting, where it was set, the value and what would be right. `arguments`
// without argv[0].
ConfigOutcome LoadConfig(const std::vector<std::string>& arguments,
                         const ConfigEnvironment& environment);

// A group by name or number; NOT_FOUND.
absl::StatusOr<gid_t> FindGroup(const std::string& group);

}  // namespace hone
