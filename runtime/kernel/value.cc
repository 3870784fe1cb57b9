#include "runtime/kernel/value.h"

#include "absl/strings/str_cat.h"

namespace hone {

std::string ToString(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return absl::StrCat(*integer);
  if (const auto* type = std::get_if<DataType>(&value)) return std::string(Name(*type));
  return std::get<std::string>(value);
}

std::string ToString(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    absl::StrAppend(&text, text.empty() ? "" : " ", name, "=", ToString(value));
  }
  return text;
}

}  // namespace hone
