#include "client/cli/terminal.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/table.h"

namespace hone::cli {

bool IsTerminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string(term) != "dumb";
}

TerminalSize GetTerminalSize() {
  TerminalSize size;
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) {
    if (window.ws_col > 0) size.columns = window.ws_col;
    if (window.ws_row > 0) size.rows = window.ws_row;
  }
  return size;
}

bool ShowsUtf8() {
  static const bool utf8 = [] {
    std::setlocale(LC_CTYPE, "");
    return std::string(nl_langinfo(CODESET)) == "UTF-8";
  }();
  return utf8;
}

std::string Bar(double share, int width, bool utf8) {
  share = std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0);
  if (!utf8) return std::string(static_cast<size_t>(std::lround(share * width)), '#');
  // U+2588 full block, then seven eighths down to one.
  static constexpr std::array<const char*, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<size_t>(std::lround(share * width * 8));
  std::string bar;
  for (size_t i = 0; i < eighths / 8; ++i) bar += "█";
  return bar + kEighths[eighths % 8];
}

void LiveBlock::Draw(const std::vector<std::string>& lines) {
  const auto width = static_cast<size_t>(GetTerminalSize().columns - 1);
  std::string text;
  if (drawn_ > 0) absl::StrAppend(&text, "\x1b[", drawn_, "A");  // up to the block's first line
  for (const std::string& line : lines) {
    absl::StrAppend(&text, "\r\x1b[2K", Truncate(line, width), "\n");
  }
  text += "\x1b[J";  // what is left of a longer block before
  drawn_ = lines.size();
  std::cout << text << std::flush;
}

void LiveBlock::Clear() { Draw({}); }

}  // namespace hone::cli
