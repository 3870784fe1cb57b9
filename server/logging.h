// One line per event with stable keys, as text or as JSON, on standard error.
//
//   2026-03-01T12:00:00.123Z info miss template=copy_1d policy=FROZEN took_ms=3
//   {"ts":"...","level":"info","event":"miss","template":"copy_1d","policy":"FROZEN","took_ms":3}
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "spdlog/common.h"

namespace hone {

// Makes the process's default logger. `level`: debug, info, warn, error; `format`: text, json. Call
// before threads exist.
void StartLogging(const std::string& level, const std::string& format);

// Builds an event's line. Values that are not plain words are quoted and escaped.
class LogEvent {
 public:
  explicit LogEvent(absl::string_view event) : line_(event) {}
  LogEvent& Add(absl::string_view key, absl::string_view value);
  LogEvent& Add(absl::string_view key, const std::string& value) {
    return Add(key, absl::string_view(value));
  }
  LogEvent& Add(absl::string_view key, const char* value) {
    return Add(key, absl::string_view(value));
  }
  LogEvent& Add(absl::string_view key, int64_t value);
  LogEvent& Add(absl::string_view key, double value);

  const std::string& line() const { return line_; }
  void Write(spdlog::level::level_enum level = spdlog::level::info) const;

 private:
  std::string line_;
};

// A text line "event key=value ..." as the members of a JSON object without its braces. Lines of
// other shapes become the member "message".
std::string JsonMembers(absl::string_view line);

}  // namespace hone
