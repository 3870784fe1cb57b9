// The text form of a stored row: lines `name=value`, names repeatable, values escaped. Readable in
// any SQLite shell, and open to new fields: a reader passes over names it does not ask for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hone {

class RecordWriter {
 public:
  // Named after their types so that a bool or a literal never picks the wrong one.
  RecordWriter& Text(absl::string_view name, absl::string_view value);
  RecordWriter& Int(absl::string_view name, int64_t value);
  // With 17 significant digits: reads back to the same double.
  RecordWriter& Double(absl::string_view name, double value);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Getters of a missing or ill-formed field give a zero value and note the first such error in
// status(), which the caller looks at once, at the end.
class RecordReader {
 public:
  explicit RecordReader(absl::string_view record);

  std::string Text(const std::string& name);
  int64_t Int(const std::string& name);
  double Double(const std::string& name);
  bool Has(const std::string& name) const { return fields_.contains(name); }
  // In the order written; empty if there are none.
  std::vector<std::string> Texts(const std::string& name);
  std::vector<int64_t> Ints(const std::string& name);
  std::vector<double> Doubles(const std::string& name);

  // DATA_LOSS with the first line or field that could not be read.
  const absl::Status& status() const { return status_; }
  void Fail(absl::string_view what);

 private:
  int64_t ToInt(const std::string& name, const std::string& value);
  double ToDouble(const std::string& name, const std::string& value);

  std::map<std::string, std::vector<std::string>> fields_;
  absl::Status status_;
};

}  // namespace hone
