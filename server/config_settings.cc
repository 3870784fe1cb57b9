#include "server/config_settings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

constexpr int kWorkersMax = 256;
constexpr absl::Duration kTimeoutMax = absl::Hours(1);
// A log must hold the first errors, and GetLog's reply must reach clients with gRPC's default
// limit.
constexpr int64_t kLogBytesMin = 4096;
constexpr int64_t kLogBytesMax = int64_t{2} << 20;
// Less holds no problem worth tuning.
constexpr int64_t kTuneMemoryMin = int64_t{1} << 20;

absl::Status Wrong(absl::string_view right) { return absl::InvalidArgumentError(right); }

// Relative paths count from where the daemon was started.
std::string Absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

absl::Status ReadListen(const std::string& text, DaemonConfig& config) {
  if (!absl::StartsWith(text, "unix:") || text.size() == 5) {
    return Wrong("give unix:PATH; TCP needs TLS, which this version does not have");
  }
  config.listen = "unix:" + Absolute(text.substr(5));
  return absl::OkStatus();
}

absl::Status ReadMode(const std::string& text, DaemonConfig& config) {
  mode_t mode = 0;
  for (const char c : text) {
    if (c < '0' || c > '7' || text.size() > 5) return Wrong("give an octal mode such as 0660");
    mode = mode * 8 + static_cast<mode_t>(c - '0');
  }
  if (text.empty() || mode > 0777) return Wrong("give an octal mode from 0600 to 0777");
  if ((mode & S_IRUSR) == 0 || (mode & S_IWUSR) == 0) {
    return Wrong("the owner must be able to read and write (06xx)");
  }
  config.socket_mode = mode;
  return absl::OkStatus();
}

absl::Status ReadGroup(const std::string& text, std::string& group) {
  if (!text.empty() && !FindGroup(text).ok()) {
    return Wrong("give the name or number of a group that exists on this machine");
  }
  group = text;
  return absl::OkStatus();
}

absl::Status ReadDirectory(const std::string& text, std::string& directory) {
  if (text.empty()) return Wrong("give a directory");
  directory = Absolute(text);
  return absl::OkStatus();
}

// A template in it that is wrong only warns; a catalog that is not there was meant to be another.
absl::Status ReadCatalog(const std::string& text, std::string& directory) {
  std::string catalog;
  HONE_RETURN_IF_ERROR(ReadDirectory(text, catalog));
  if (!IsDirectory(catalog) || access(catalog.c_str(), R_OK | X_OK) != 0) {
    return Wrong("give a directory that exists and that this process can read");
  }
  directory = std::move(catalog);
  return absl::OkStatus();
}

constexpr const char* kDeviceNames[] = {"auto", "cpu", "cuda", "none"};

absl::Status ReadDevice(const std::string& text, DaemonConfig& config) {
  for (int i = 0; i < 4; ++i) {
    if (text != kDeviceNames[i]) continue;
    config.device = static_cast<DeviceChoice>(i);
    return absl::OkStatus();
  }
  return Wrong("give auto, cpu, cuda or none");
}

absl::Status ReadWorkers(const std::string& text, DaemonConfig& config) {
  int workers = 0;
  if (!absl::SimpleAtoi(text, &workers) || workers < 0 || workers > kWorkersMax) {
    return Wrong(absl::StrCat("give 1 to ", kWorkersMax, ", or 0 for what the machine carries"));
  }
  config.workers = workers;
  return absl::OkStatus();
}

absl::Status ReadTimeout(const std::string& text, absl::Duration& timeout) {
  absl::Duration read;
  int64_t seconds = 0;
  if (absl::SimpleAtoi(text, &seconds)) {
    read = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &read)) {
    return Wrong("give a duration such as 60s or 5m; a plain number counts seconds");
  }
  if (read < absl::Milliseconds(100) || read > kTimeoutMax) {
    return Wrong("give a duration from 100ms to 1h");
  }
  timeout = read;
  return absl::OkStatus();
}

// Less would be full of the schema, the write-ahead log and one large binary.
constexpr int64_t kStoreBytesMin = int64_t{16} << 20;

struct ByteUnit {
  absl::string_view suffix;
  int64_t bytes;
};
constexpr ByteUnit kByteUnits[] = {{"KiB", int64_t{1} << 10},
                                   {"MiB", int64_t{1} << 20},
                                   {"GiB", int64_t{1} << 30},
                                   {"TiB", int64_t{1} << 40},
                                   {"KB", 1'000},
                                   {"MB", 1'000'000},
                                   {"GB", 1'000'000'000},
                                   {"TB", 1'000'000'000'000},
                                   {"", 1}};

// "500000", "500KB", "512KiB"; nullopt for anything else and for what does not fit.
std::optional<int64_t> ParseBytes(absl::string_view text) {
  for (const ByteUnit& unit : kByteUnits) {
    absl::string_view digits = text;
    if (!absl::ConsumeSuffix(&digits, unit.suffix)) continue;
    int64_t count = 0, bytes = 0;
    const bool fits = absl::SimpleAtoi(absl::StripAsciiWhitespace(digits), &count) &&
                      !__builtin_mul_overflow(count, unit.bytes, &bytes);
    return fits ? std::optional(bytes) : std::nullopt;
  }
  return std::nullopt;
}

absl::Status ReadStoreBytes(const std::string& text, DaemonConfig& config) {
  const auto bytes = ParseBytes(text);
  if (!bytes || (*bytes != 0 && *bytes < kStoreBytesMin)) {
    return Wrong(absl::StrCat("give at least ", kStoreBytesMin,
                              " bytes, for instance 500MB or 10GB, or 0 for no bound"));
  }
  config.store_bytes_max = *bytes;
  return absl::OkStatus();
}

absl::Status ReadLogBytes(const std::string& text, DaemonConfig& config) {
  const auto bytes = ParseBytes(text);
  if (!bytes || *bytes < kLogBytesMin || *bytes > kLogBytesMax) {
    return Wrong(absl::StrCat("give ", kLogBytesMin, " to ", kLogBytesMax, " bytes"));
  }
  config.compile_log_bytes = *bytes;
  return absl::OkStatus();
}

absl::Status ReadTuneMemory(const std::string& text, DaemonConfig& config) {
  int64_t bytes = 0;
  if (!absl::SimpleAtoi(text, &bytes) || (bytes != 0 && bytes < kTuneMemoryMin)) {
    return Wrong(absl::StrCat("give at least ", kTuneMemoryMin, " bytes, or 0 for what there is"));
  }
  config.tune_memory_bytes_max = bytes;
  return absl::OkStatus();
}

absl::Status ReadTuneDuty(const std::string& text, DaemonConfig& config) {
  int percent = 0;
  if (!absl::SimpleAtoi(text, &percent) || percent < 1 || percent > 100) {
    return Wrong("give 1 to 100");
  }
  config.tune_duty_percent = percent;
  return absl::OkStatus();
}

absl::Status ReadOneOf(const std::string& text, const std::vector<std::string>& choices,
                       std::string& to) {
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    return Wrong(absl::StrCat("give one of ", absl::StrJoin(choices, ", ")));
  }
  to = text;
  return absl::OkStatus();
}

std::vector<Setting> MakeSettings() {
  using Config = DaemonConfig;
  using Text = const std::string&;
  return {
      {"listen", "unix:PATH", "Socket to serve on", ReadListen,
       [](const Config& c) { return c.listen; }},
      {"socket-mode", "MODE", "Permissions of the socket, octal; its group and others may read",
       ReadMode, [](const Config& c) { return absl::StrFormat("%04o", c.socket_mode); }},
      {"socket-group", "GROUP", "Group of the socket",
       [](Text t, Config& c) { return ReadGroup(t, c.socket_group); },
       [](const Config& c) { return c.socket_group; }},
      {"admin-group", "GROUP", "Members may tune, register and compile; others may get and list",
       [](Text t, Config& c) { return ReadGroup(t, c.admin_group); },
       [](const Config& c) { return c.admin_group; }},
      {"cache-dir", "DIR", "Where binaries and timings are kept; made when missing",
       [](Text t, Config& c) { return ReadDirectory(t, c.cache_dir); },
       [](const Config& c) { return c.cache_dir; }},
      {"kernels", "DIR", "Catalog of templates, one directory each",
       [](Text t, Config& c) { return ReadCatalog(t, c.kernels_dir); },
       [](const Config& c) { return c.kernels_dir; }},
      {"device", "KIND", "auto (CUDA devices, else the CPU reference device), cpu, cuda or none",
       ReadDevice,
       [](const Config& c) { return std::string(kDeviceNames[static_cast<size_t>(c.device)]); }},
      {"workers", "N", "Compile workers; 0: what the machine carries", ReadWorkers,
       [](const Config& c) { return absl::StrCat(c.workers); }},
      {"compile-timeout", "DURATION", "Limit of one compile",
       [](Text t, Config& c) { return ReadTimeout(t, c.compile_timeout); },
       [](const Config& c) { return absl::FormatDuration(c.compile_timeout); }},
      {"measure-cache", "STATE",
       "What a timed kernel finds in the device's cache: cold, warm or rotating (other buffers' "
       "data); timings of one are not used under another",
       [](Text t, Config& c) {
         return ReadOneOf(t, {"cold", "warm", "rotating"}, c.measure_cache);
       },
       [](const Config& c) { return c.measure_cache; }},
      {"compile-log-bytes", "BYTES", "How much of one compiler log is kept; the rest is counted",
       ReadLogBytes, [](const Config& c) { return absl::StrCat(c.compile_log_bytes); }},
      {"store-max-bytes", "BYTES",
       "What hone.db may take with its log, for instance 500MB or 10GiB; binaries used longest ago "
       "make room, those of winners stay; 0: no bound",
       ReadStoreBytes, [](const Config& c) { return absl::StrCat(c.store_bytes_max); }},
      {"launch-timeout", "DURATION", "Limit of one launch of a candidate while tuning",
       [](Text t, Config& c) { return ReadTimeout(t, c.launch_timeout); },
       [](const Config& c) { return absl::FormatDuration(c.launch_timeout); }},
      {"tune-when", "WHEN",
       "on_request (only what somebody asks to be tuned), idle (misses too, while nobody else uses "
       "the device), always (misses too) or never",
       [](Text t, Config& c) {
         return ReadOneOf(t, {"on_request", "idle", "always", "never"}, c.tune_when);
       },
       [](const Config& c) { return c.tune_when; }},
      {"tune-memory", "BYTES", "Device memory that one tune may take; 0: what there is",
       ReadTuneMemory, [](const Config& c) { return absl::StrCat(c.tune_memory_bytes_max); }},
      {"tune-duty", "PERCENT", "Share of the time in which a tune may use its device", ReadTuneDuty,
       [](const Config& c) { return absl::StrCat(c.tune_duty_percent); }},
      {"drain-timeout", "DURATION", "How long SIGTERM waits for calls under way",
       [](Text t, Config& c) { return ReadTimeout(t, c.drain_timeout); },
       [](const Config& c) { return absl::FormatDuration(c.drain_timeout); }},
      {"log-level", "LEVEL", "debug, info, warn or error; debug has a line for every hit",
       [](Text t, Config& c) {
         return ReadOneOf(t, {"debug", "info", "warn", "error"}, c.log_level);
       },
       [](const Config& c) { return c.log_level; }},
      {"log-format", "FORMAT", "text or json, on standard error",
       [](Text t, Config& c) {
         return ReadOneOf(t, {"text", "json"}, c.log_format);
       },
       [](const Config& c) { return c.log_format; }},
  };
}

}  // namespace

std::string Setting::variable() const {
  return absl::StrCat("HONE_", absl::AsciiStrToUpper(key()));
}

std::string Setting::key() const { return absl::StrReplaceAll(name, {{"-", "_"}}); }

const std::vector<Setting>& Settings() {
  static const std::vector<Setting>& settings = *new std::vector<Setting>(MakeSettings());
  return settings;
}

}  // namespace hone
