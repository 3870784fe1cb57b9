#include "client/cli/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace hone::cli {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::string Padded(const std::string& text, size_t width, bool right) {
  const std::string blanks(width - std::min(width, DisplayWidth(text)), ' ');
  return right ? blanks + text : text + blanks;
}

}  // namespace

size_t DisplayWidth(absl::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::string Truncate(absl::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width == 0) return "";
  size_t shown = 0;
  size_t bytes = 0;
  while (bytes < text.size()) {
    if (!IsContinuation(text[bytes]) && ++shown == width) break;
    ++bytes;
  }
  return absl::StrCat(text.substr(0, bytes), "~");
}

std::vector<std::string> Table::Lines() const {
  const auto cell = [](const std::vector<std::string>& row, size_t i) {
    return i < row.size() ? row[i] : std::string();
  };
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(cell(row, i)));
    }
  }
  const auto line = [&](const std::vector<std::string>& row) {
    std::vector<std::string> padded;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (widths[i] == 0) continue;
      padded.push_back(Padded(cell(row, i), std::max(widths[i], DisplayWidth(columns_[i].title)),
                              columns_[i].right));
    }
    std::string text = absl::StrJoin(padded, "  ");
    absl::StripTrailingAsciiWhitespace(&text);
    return text;
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::vector<std::string> lines{line(titles)};
  for (const auto& row : rows_) lines.push_back(line(row));
  return lines;
}

std::string Table::Text() const { return absl::StrCat(absl::StrJoin(Lines(), "\n"), "\n"); }

}  // namespace hone::cli
