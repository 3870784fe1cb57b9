#include "runtime/compile/check_program.h"

#include <cctype>
#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/utf8.h"
#include "runtime/compile/compile_options.h"

namespace hone {
namespace {

constexpr size_t kExpressionBytesMax = 4096;

absl::Status TooMuch(absl::string_view what, int64_t needed, int64_t limit) {
  ErrorInfo info;
  info.reason = "SOURCE_TOO_LARGE";
  info.needed = needed;
  info.available = limit;
  return WithErrorInfo(
      absl::ResourceExhaustedError(absl::StrCat(what, ": ", needed, " above the limit of ", limit)),
      info);
}

absl::Status CheckText(absl::string_view field, absl::string_view text) {
  if (!IsValidUtf8(text)) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": not valid UTF-8"));
  }
  if (text.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": holds a NUL byte"));
  }
  return absl::OkStatus();
}

absl::Status CheckLine(absl::string_view field, absl::string_view text) {
  HONE_RETURN_IF_ERROR(CheckText(field, text));
  if (text.find_first_of("\r\n") != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": must be one line"));
  }
  return absl::OkStatus();
}

absl::Status CheckSource(const Program& program, const ProgramLimits& limits) {
  const auto size = static_cast<int64_t>(program.source.size());
  if (size > limits.source_bytes_max) return TooMuch("source bytes", size, limits.source_bytes_max);
  return CheckText("source", program.source);
}

absl::Status CheckHeaders(const Program& program, const ProgramLimits& limits) {
  if (program.headers.size() > static_cast<size_t>(limits.headers_max)) {
    return TooMuch("headers", static_cast<int64_t>(program.headers.size()), limits.headers_max);
  }
  std::set<absl::string_view> names;
  int64_t bytes = 0;
  for (const SourceFile& header : program.headers) {
    if (absl::Status status = CheckRelativePath(header.name); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("headers: ", status.message()));
    }
    HONE_RETURN_IF_ERROR(CheckText("headers: name", header.name));
    if (!names.insert(header.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("headers: '", header.name, "' is given twice"));
    }
    HONE_RETURN_IF_ERROR(CheckText(absl::StrCat("headers: '", header.name, "'"), header.content));
    bytes += static_cast<int64_t>(header.content.size());
  }
  if (bytes > limits.headers_bytes_max) {
    return TooMuch("header bytes", bytes, limits.headers_bytes_max);
  }
  return absl::OkStatus();
}

absl::Status CheckDefines(const Program& program) {
  for (const auto& [name, value] : program.defines) {
    if (!IsMacroName(name)) {
      return absl::InvalidArgumentError(absl::StrCat("defines: '", name, "' is not an identifier"));
    }
    HONE_RETURN_IF_ERROR(CheckLine(absl::StrCat("defines: '", name, "'"), value));
  }
  return absl::OkStatus();
}

absl::Status CheckExpressions(const Program& program, const ProgramLimits& limits) {
  if (program.name_expressions.size() > static_cast<size_t>(limits.name_expressions_max)) {
    return TooMuch("name_expressions", static_cast<int64_t>(program.name_expressions.size()),
                   limits.name_expressions_max);
  }
  for (const std::string& expression : program.name_expressions) {
    HONE_RETURN_IF_ERROR(CheckLine("name_expressions", expression));
    if (expression.empty() || expression.size() > kExpressionBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("name_expressions: must have 1 to ",
                                                     kExpressionBytesMax, " bytes, not ",
                                                     expression.size()));
    }
  }
  return absl::OkStatus();
}

// The name only shows in messages; whatever the caller calls the program, it becomes a file name.
std::string FileName(const std::string& name) {
  std::string file = BaseName(name).substr(0, 200);
  for (char& c : file) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) == 0 && c != '.' && c != '_' && c != '-') c = '_';
  }
  return file.empty() || file == "." || file == ".." ? "program.cu" : file;
}

}  // namespace

absl::StatusOr<Program> CheckProgram(const Program& program, const ProgramLimits& limits) {
  HONE_RETURN_IF_ERROR(CheckSource(program, limits));
  HONE_RETURN_IF_ERROR(CheckHeaders(program, limits));
  HONE_RETURN_IF_ERROR(CheckDefines(program));
  HONE_RETURN_IF_ERROR(CheckExpressions(program, limits));
  for (const std::string& option : program.options) {
    HONE_RETURN_IF_ERROR(CheckLine("options", option));
  }
  Program checked = program;
  HONE_ASSIGN_OR_RETURN(checked.options, NormalizeOptions(program.options));
  checked.name = FileName(program.name);
  return checked;
}

}  // namespace hone
