// Aligned columns of text.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone::cli {

struct Column {
  std::string title;
  bool right = false;  // numbers
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column; missing ones are empty.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }

  // Title and rows, each without line end and without blanks at its end. A column that is empty in
  // every row is left out.
  std::vector<std::string> Lines() const;
  // Lines, each ended.
  std::string Text() const;

 private:
  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Characters a terminal shows for UTF-8 text without wide or combining characters.
size_t DisplayWidth(absl::string_view text);
// At most `width` characters; a cut is marked by "~".
std::string Truncate(absl::string_view text, size_t width);

}  // namespace hone::cli
