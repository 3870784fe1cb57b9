#include "runtime/store/record.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace hone {
namespace {

void AppendEscaped(absl::string_view value, std::string& out) {
  for (const char c : value) {
    switch (c) {
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\0':
        out += "\\0";
        break;
      default:
        out += c;
    }
  }
}

// False for an escape that AppendEscaped does not write.
bool Unescape(absl::string_view value, std::string& out) {
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] != '\\') {
      out += value[i];
      continue;
    }
    if (++i == value.size()) return false;
    switch (value[i]) {
      case '\\':
        out += '\\';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case '0':
        out += '\0';
        break;
      default:
        return false;
    }
  }
  return true;
}

}  // namespace

RecordWriter& RecordWriter::Text(absl::string_view name, absl::string_view value) {
  absl::StrAppend(&text_, name, "=");
  AppendEscaped(value, text_);
  text_ += '\n';
  return *this;
}

RecordWriter& RecordWriter::Int(absl::string_view name, int64_t value) {
  absl::StrAppend(&text_, name, "=", value, "\n");
  return *this;
}

RecordWriter& RecordWriter::Double(absl::string_view name, double value) {
  absl::StrAppendFormat(&text_, "%s=%.17g\n", name, value);
  return *this;
}

RecordReader::RecordReader(absl::string_view record) {
  for (const absl::string_view line : absl::StrSplit(record, '\n', absl::SkipEmpty())) {
    const size_t equals = line.find('=');
    std::string value;
    if (equals == absl::string_view::npos || !Unescape(line.substr(equals + 1), value)) {
      Fail(absl::StrCat("line '", line.substr(0, 60), "' is not name=value"));
      return;
    }
    fields_[std::string(line.substr(0, equals))].push_back(std::move(value));
  }
}

void RecordReader::Fail(absl::string_view what) {
  if (status_.ok()) status_ = absl::DataLossError(absl::StrCat("a stored row is damaged: ", what));
}

std::string RecordReader::Text(const std::string& name) {
  const auto found = fields_.find(name);
  if (found != fields_.end()) return found->second.front();
  Fail(absl::StrCat("field '", name, "' is missing"));
  return "";
}

int64_t RecordReader::ToInt(const std::string& name, const std::string& value) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(value, &number)) {
    Fail(absl::StrCat("field '", name, "' is '", value, "', not an integer"));
    return 0;
  }
  return number;
}

double RecordReader::ToDouble(const std::string& name, const std::string& value) {
  double number = 0;
  if (!absl::SimpleAtod(value, &number)) {
    Fail(absl::StrCat("field '", name, "' is '", value, "', not a number"));
    return 0;
  }
  return number;
}

int64_t RecordReader::Int(const std::string& name) {
  const std::string value = Text(name);
  return status_.ok() ? ToInt(name, value) : 0;
}

double RecordReader::Double(const std::string& name) {
  const std::string value = Text(name);
  return status_.ok() ? ToDouble(name, value) : 0;
}

std::vector<std::string> RecordReader::Texts(const std::string& name) {
  const auto found = fields_.find(name);
  return found == fields_.end() ? std::vector<std::string>() : found->second;
}

std::vector<int64_t> RecordReader::Ints(const std::string& name) {
  std::vector<int64_t> numbers;
  for (const std::string& value : Texts(name)) numbers.push_back(ToInt(name, value));
  return numbers;
}

std::vector<double> RecordReader::Doubles(const std::string& name) {
  std::vector<double> numbers;
  for (const std::string& value : Texts(name)) numbers.push_back(ToDouble(name, value));
  return numbers;
}

}  // namespace hone
