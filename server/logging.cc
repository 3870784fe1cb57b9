#include "server/logging.h"

#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace hone {
namespace {

bool IsPlain(absl::string_view value) {
  if (value.empty()) return false;
  for (const char c : value) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == '\x7f') return false;
  }
  return true;
}

// JSON's string escapes, which text lines use too. Bytes above ASCII pass as they are: UTF-8.
std::string Quote(absl::string_view value) {
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", absl::string_view(&c, 1));
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

bool IsKey(absl::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return true;
}

// The length of the value at the start of `text`, quotes included.
size_t ValueLength(absl::string_view text) {
  if (text.empty() || text[0] != '"') return std::min(text.find(' '), text.size());
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return text.size();
}

std::string JsonValue(absl::string_view value) {
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') return std::string(value);
  int64_t integer = 0;
  double number = 0;
  // Leading zeros and signs that JSON does not know stay text; hashes of digits, too.
  const bool numeric =
      !value.empty() && value.size() < 16 && (value == "0" || (value[0] >= '1' && value[0] <= '9'));
  if (numeric && (absl::SimpleAtoi(value, &integer) ||
                  (value.find_first_not_of("0123456789.") == absl::string_view::npos &&
                   value.back() != '.' && absl::SimpleAtod(value, &number)))) {
    return std::string(value);
  }
  return Quote(value);
}

class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override {
    const absl::string_view line(message.payload.data(), message.payload.size());
    const auto level = spdlog::level::to_string_view(message.level);
    const std::string json =
        absl::StrCat("{\"ts\":\"",
                     absl::FormatTime("%E4Y-%m-%dT%H:%M:%E3SZ", absl::FromChrono(message.time),
                                      absl::UTCTimeZone()),
                     "\",\"level\":\"", absl::string_view(level.data(), level.size()), "\",",
                     JsonMembers(line), "}\n");
    to.append(json.data(), json.data() + json.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

}  // namespace

LogEvent& LogEvent::Add(absl::string_view key, absl::string_view value) {
  absl::StrAppend(&line_, " ", key, "=", IsPlain(value) ? std::string(value) : Quote(value));
  return *this;
}

LogEvent& LogEvent::Add(absl::string_view key, int64_t value) {
  absl::StrAppend(&line_, " ", key, "=", value);
  return *this;
}

LogEvent& LogEvent::Add(absl::string_view key, double value) {
  absl::StrAppend(&line_, " ", key, "=", absl::StrFormat("%.6g", value));
  return *this;
}

void LogEvent::Write(spdlog::level::level_enum level) const {
  spdlog::default_logger_raw()->log(level, spdlog::string_view_t(line_.data(), line_.size()));
}

std::string JsonMembers(absl::string_view line) {
  const size_t event_end = std::min(line.find(' '), line.size());
  if (!IsKey(line.substr(0, event_end))) return absl::StrCat("\"message\":", Quote(line));
  std::string json = absl::StrCat("\"event\":", Quote(line.substr(0, event_end)));
  absl::string_view rest = line.substr(event_end);
  while (!rest.empty()) {
    rest = absl::StripLeadingAsciiWhitespace(rest);
    const size_t equals = rest.find('=');
    if (equals == absl::string_view::npos || !IsKey(rest.substr(0, equals))) {
      if (rest.empty()) return json;
      return absl::StrCat("\"message\":", Quote(line));
    }
    const absl::string_view key = rest.substr(0, equals);
    rest.remove_prefix(equals + 1);
    const size_t length = ValueLength(rest);
    absl::StrAppend(&json, ",\"", key, "\":", JsonValue(rest.substr(0, length)));
    rest.remove_prefix(length);
  }
  return json;
}

void StartLogging(const std::string& level, const std::string& format) {
  auto logger =
      std::make_shared<spdlog::logger>("honed", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(spdlog::level::from_str(level));
  if (format == "json") {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  }
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace hone
