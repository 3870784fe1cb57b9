#include "runtime/compile/diagnostics.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace hone {
namespace {

constexpr int kLinesAround = 2;
constexpr size_t kExcerptLineBytes = 160;
constexpr size_t kErrorLineBytes = 500;

struct Position {
  std::string file;
  int line = 0;
};

// "k.cu(12): error: ..." or "k.cu(12): catastrophic error: ...".
std::optional<Position> ReadNvrtcPosition(absl::string_view line, absl::string_view marker) {
  const size_t at = line.find(absl::StrCat("): ", marker));
  if (at == absl::string_view::npos) return std::nullopt;
  const size_t open = line.rfind('(', at);
  Position position;
  if (open == absl::string_view::npos ||
      !absl::SimpleAtoi(line.substr(open + 1, at - open - 1), &position.line)) {
    return std::nullopt;
  }
  position.file = std::string(line.substr(0, open));
  return position;
}

// "k.cu:12:5: error: ...", also without a column.
std::optional<Position> ReadGccPosition(absl::string_view line) {
  size_t at = line.find(": error: ");
  if (at == absl::string_view::npos) at = line.find(": fatal error: ");
  if (at == absl::string_view::npos) return std::nullopt;
  std::vector<std::string> parts = absl::StrSplit(line.substr(0, at), ':');
  Position position;
  for (int numbers = 0; numbers < 2 && parts.size() > 1; ++numbers) {
    int value = 0;
    if (!absl::SimpleAtoi(parts.back(), &value)) break;
    position.line = value;
    parts.pop_back();
  }
  position.file = parts.front();
  return position;
}

struct ErrorLine {
  std::optional<Position> position;
};

// Whether a line of the log reports an error, and where.
std::optional<ErrorLine> ReadErrorLine(absl::string_view line) {
  for (absl::string_view marker : {"error: ", "error #", "catastrophic error: "}) {
    if (auto position = ReadNvrtcPosition(line, marker)) return ErrorLine{position};
  }
  if (auto position = ReadGccPosition(line)) return ErrorLine{position};
  // "ptxas application ptx input, line 23; error   : ...", "nvrtc: error: ...". The assembler's
  // closing "ptxas fatal" repeats that there were errors; alone it is one.
  if (absl::StartsWith(line, "ptxas ") && absl::StrContains(line, "; error")) return ErrorLine{};
  if (absl::StartsWith(line, "nvrtc: error") || absl::StartsWith(line, "error: "))
    return ErrorLine{};
  return std::nullopt;
}

absl::string_view StripDotSlash(absl::string_view name) {
  while (absl::ConsumePrefix(&name, "./")) {
  }
  return name;
}

const std::string* FindSource(const Program& program, absl::string_view file) {
  file = StripDotSlash(file);
  if (file == program.name) return &program.source;
  for (const SourceFile& header : program.headers) {
    if (file == header.name) return &header.content;
  }
  return nullptr;
}

std::string Clip(absl::string_view line, size_t bytes_max) {
  line = absl::StripTrailingAsciiWhitespace(line);
  if (line.size() <= bytes_max) return std::string(line);
  return absl::StrCat(line.substr(0, bytes_max), " ...");
}

std::string SourceAround(absl::string_view source, int line) {
  const std::vector<absl::string_view> lines = absl::StrSplit(source, '\n');
  const int first = std::max(1, line - kLinesAround);
  const int last = std::min(static_cast<int>(lines.size()), line + kLinesAround);
  std::string text;
  for (int i = first; i <= last; ++i) {
    absl::StrAppend(&text, i == line ? "> " : "  ", absl::Dec(i, absl::kSpacePad5), " | ",
                    Clip(lines[static_cast<size_t>(i) - 1], kExcerptLineBytes), "\n");
  }
  return text;
}

std::string Excerpt(absl::string_view error_line, const ErrorLine& error, const Program& program) {
  std::string text = absl::StrCat(Clip(StripDotSlash(error_line), kErrorLineBytes), "\n");
  if (!error.position.has_value()) return text;
  const std::string* source = FindSource(program, error.position->file);
  if (source != nullptr) absl::StrAppend(&text, SourceAround(*source, error.position->line));
  return text;
}

}  // namespace

Diagnostics ReadLog(absl::string_view log, const Program& program) {
  Diagnostics result;
  absl::string_view fatal_line;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (absl::StartsWith(line, "Error limit reached")) result.error_limit_reached = true;
    if (absl::StartsWith(line, "ptxas fatal") && fatal_line.empty()) fatal_line = line;
    const std::optional<ErrorLine> error = ReadErrorLine(line);
    if (!error.has_value()) continue;
    ++result.error_count;
    if (result.excerpt.empty()) result.excerpt = Excerpt(line, *error, program);
  }
  if (result.error_count == 0 && !fatal_line.empty()) {
    result.error_count = 1;
    result.excerpt = Excerpt(fatal_line, ErrorLine{}, program);
  }
  return result;
}

std::string ErrorSummary(const Diagnostics& diagnostics) {
  const std::string first = diagnostics.excerpt.substr(0, diagnostics.excerpt.find('\n'));
  if (first.empty()) return "the compiler failed without naming an error; see its log";
  if (diagnostics.error_limit_reached) {
    return absl::StrCat(diagnostics.error_count, " errors, limit reached; first: ", first);
  }
  if (diagnostics.error_count <= 1) return first;
  return absl::StrCat(diagnostics.error_count, " errors; first: ", first);
}

int64_t TruncateLog(std::string& log, int64_t bytes_max) {
  const auto limit = static_cast<size_t>(std::max<int64_t>(bytes_max, 0));
  if (log.size() <= limit) return 0;
  const size_t line_end = limit == 0 ? std::string::npos : log.rfind('\n', limit - 1);
  // A log without line ends is cut anywhere.
  const size_t keep = line_end == std::string::npos || line_end < limit / 2 ? limit : line_end + 1;
  const auto dropped = static_cast<int64_t>(log.size() - keep);
  log.resize(keep);
  return dropped;
}

}  // namespace hone
