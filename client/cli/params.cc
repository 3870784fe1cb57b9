#include "client/cli/params.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/errors.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

absl::Status NotAnInteger(absl::string_view text) {
  return UsageError(
      absl::StrCat("'", text, "' is not an integer; write 4096, 2^26, 64Ki, 1Gi or 3*2^20+1"));
}

absl::Status TooLarge(absl::string_view text) {
  return UsageError(absl::StrCat("'", text, "' does not fit 64 bits"));
}

struct Unit {
  absl::string_view suffix;
  int shift;
};
constexpr Unit kUnits[] = {{"Ki", 10}, {"Mi", 20}, {"Gi", 30}, {"Ti", 40}};

absl::StatusOr<int64_t> ParseDigits(absl::string_view text) {
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) return NotAnInteger(text);
  }
  int64_t value = 0;
  if (text.empty()) return NotAnInteger(text);
  if (!absl::SimpleAtoi(text, &value)) return TooLarge(text);
  return value;
}

// digits, digits^digits or digits with a unit.
absl::StatusOr<int64_t> ParseFactor(absl::string_view text) {
  for (const Unit& unit : kUnits) {
    absl::string_view digits = text;
    if (!absl::ConsumeSuffix(&digits, unit.suffix)) continue;
    HONE_ASSIGN_OR_RETURN(const int64_t value, ParseDigits(digits));
    int64_t scaled = 0;
    if (__builtin_mul_overflow(value, int64_t{1} << unit.shift, &scaled)) return TooLarge(text);
    return scaled;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('^', 1));
  HONE_ASSIGN_OR_RETURN(const int64_t base, ParseDigits(parts[0]));
  if (parts.size() == 1) return base;
  HONE_ASSIGN_OR_RETURN(const int64_t exponent, ParseDigits(parts[1]));
  int64_t value = 1;
  for (int64_t i = 0; i < exponent && base > 1; ++i) {
    if (__builtin_mul_overflow(value, base, &value)) return TooLarge(text);
  }
  return base > 1 || exponent == 0 ? value : base;
}

absl::StatusOr<int64_t> ParseProduct(absl::string_view text) {
  int64_t product = 1;
  for (const absl::string_view factor : absl::StrSplit(text, '*')) {
    HONE_ASSIGN_OR_RETURN(const int64_t value, ParseFactor(factor));
    if (__builtin_mul_overflow(product, value, &product)) return TooLarge(text);
  }
  return product;
}

// "2*a", "-a", "1/(1+a)": a chain that begins as a number does. A name or parenthesis stands in it
// that continues no number, as the unit of 64Ki does.
bool IsExpression(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = absl::ascii_isalpha(text[i]) || text[i] == '(';
    if (begins && (i == 0 || (!absl::ascii_isalnum(text[i - 1]) && text[i - 1] != '^')))
      return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> SplitAssignments(
    const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> assignments;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == argument.size()) {
      return UsageError(absl::StrCat("'", argument, "' is not name=value, for example n=2^26"));
    }
    const std::string name = argument.substr(0, equals);
    if (!assignments.emplace(name, argument.substr(equals + 1)).second) {
      return UsageError(absl::StrCat("'", name, "' is given twice"));
    }
  }
  return assignments;
}

absl::StatusOr<int64_t> ParseInteger(absl::string_view text) {
  const absl::string_view whole = text;
  int64_t sum = 0;
  bool negative = absl::ConsumePrefix(&text, "-");
  while (true) {
    const size_t end = text.find_first_of("+-");
    absl::StatusOr<int64_t> product = ParseProduct(text.substr(0, end));
    if (!product.ok()) return product.status();
    const bool overflow = negative ? __builtin_sub_overflow(sum, *product, &sum)
                                   : __builtin_add_overflow(sum, *product, &sum);
    if (overflow) return TooLarge(whole);
    if (end == absl::string_view::npos) return sum;
    negative = text[end] == '-';
    text.remove_prefix(end + 1);
  }
}

absl::StatusOr<ParamValue> ParseParamValue(absl::string_view text) {
  if (text == "true" || text == "false") return ParamValue(text == "true");
  const bool number = !text.empty() && (absl::ascii_isdigit(text[0]) || text[0] == '-');
  if (!number || IsExpression(text)) return ParamValue(std::string(text));
  HONE_ASSIGN_OR_RETURN(const int64_t value, ParseInteger(text));
  return ParamValue(value);
}

absl::StatusOr<Params> ParseParams(const std::vector<std::string>& arguments) {
  HONE_ASSIGN_OR_RETURN(const auto assignments, SplitAssignments(arguments));
  Params params;
  for (const auto& [name, text] : assignments) {
    absl::StatusOr<ParamValue> value = ParseParamValue(text);
    if (!value.ok()) return UsageError(absl::StrCat(name, ": ", value.status().message()));
    params[name] = *std::move(value);
  }
  return params;
}

void SetParams(const Params& params, google::protobuf::Map<std::string, v1::Value>* proto) {
  for (const auto& [name, value] : params) (*proto)[name] = ToValue(value);
}

}  // namespace hone::cli
