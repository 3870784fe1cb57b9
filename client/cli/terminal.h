// What standard output is connected to.
#pragma once

#include <string>
#include <vector>

namespace hone::cli {

// Standard output is a terminal that can move its cursor.
bool IsTerminal();

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
TerminalSize GetTerminalSize();

// Whether the locale shows UTF-8, so that bars may be drawn with block characters.
bool ShowsUtf8();

// `share` (0 to 1) of `width` characters, in eighths where the locale allows.
std::string Bar(double share, int width, bool utf8);

// A block of lines that is drawn again in place.
class LiveBlock {
 public:
  // Lines longer than the terminal is wide are cut: a wrapped line could not be drawn over.
  void Draw(const std::vector<std::string>& lines);
  // Removes the block.
  void Clear();

 private:
  size_t drawn_ = 0;
};

}  // namespace hone::cli
