#include "runtime/kernel/template_text.h"

#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/field_error.h"

namespace hone {
namespace {

// The part of `text` before the next "${NAME}", and NAME. Advances `text` past it.
struct Piece {
  absl::string_view literal;
  std::string name;
  bool has_name = false;
};

absl::StatusOr<Piece> NextPiece(absl::string_view& text) {
  Piece piece;
  const size_t open = text.find("${");
  if (open == absl::string_view::npos) {
    piece.literal = text;
    text = {};
    return piece;
  }
  const size_t close = text.find('}', open);
  if (close == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text.substr(open, 40), "\" has no closing brace"));
  }
  piece.literal = text.substr(0, open);
  piece.name = std::string(text.substr(open + 2, close - open - 2));
  piece.has_name = true;
  text.remove_prefix(close + 1);
  return piece;
}

}  // namespace

bool IsIdentifier(absl::string_view text) {
  if (text.empty() || text.size() > 64 || absl::ascii_isdigit(text[0])) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_') return false;
  }
  return true;
}

absl::Status CheckText(absl::string_view path, absl::string_view text, size_t bytes_max,
                       bool lines) {
  if (text.size() > bytes_max) {
    return FieldError(path, absl::StrCat(text.size(), " bytes; at most ", bytes_max));
  }
  if (!IsValidUtf8(text)) return FieldError(path, "not valid UTF-8");
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (lines && (c == '\n' || c == '\t')) continue;
    if (byte < 0x20 || byte == 0x7f) return FieldError(path, "has a control character");
  }
  return absl::OkStatus();
}

absl::Status CheckFileName(absl::string_view path, absl::string_view name) {
  HONE_RETURN_IF_ERROR(CheckText(path, name, 255));
  const auto refused = [&](absl::string_view why) {
    return FieldError(path, absl::StrCat("\"", name, "\" ", why,
                                         "; expected a relative path below the template"));
  };
  if (name.empty()) return refused("is empty");
  if (name[0] == '/') return refused("is absolute");
  if (absl::StrContains(name, "\\")) return refused("has a backslash");
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == "..") {
      return refused(absl::StrCat("has the component \"", part, "\""));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::set<std::string>> PlaceholdersOf(absl::string_view text) {
  std::set<std::string> names;
  while (!text.empty()) {
    HONE_ASSIGN_OR_RETURN(Piece piece, NextPiece(text));
    if (piece.has_name) names.insert(std::move(piece.name));
  }
  return names;
}

absl::StatusOr<std::string> Substitute(absl::string_view text,
                                       const std::map<std::string, std::string>& spellings) {
  std::string result;
  while (!text.empty()) {
    HONE_ASSIGN_OR_RETURN(const Piece piece, NextPiece(text));
    absl::StrAppend(&result, piece.literal);
    if (!piece.has_name) continue;
    const auto it = spellings.find(piece.name);
    if (it == spellings.end()) {
      return absl::InvalidArgumentError(absl::StrCat("${", piece.name, "} is not declared"));
    }
    result += it->second;
  }
  return result;
}

}  // namespace hone
