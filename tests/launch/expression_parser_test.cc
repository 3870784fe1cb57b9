#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/launch/expression.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using enum absl::StatusCode;

// The message says `column` and contains `text`.
auto FailsAt(int column, const std::string& text) {
  return StatusIs(kInvalidArgument,
                  AllOf(StartsWith(absl::StrCat("column ", column, ": ")), HasSubstr(text)));
}

TEST(ExpressionParserTest, ErrorsNameTheColumnAndWhatWasExpected) {
  EXPECT_THAT(Expression::Parse(""),
              FailsAt(1, "expected a number, a name or '(' but found the end"));
  EXPECT_THAT(Expression::Parse("n +"), FailsAt(4, "found the end"));
  EXPECT_THAT(Expression::Parse("n * (VEC + 1"), FailsAt(13, "expected ')'"));
  EXPECT_THAT(Expression::Parse("n VEC"),
              FailsAt(3, "expected an operator or the end but found 'VEC'"));
  EXPECT_THAT(Expression::Parse("n $ 2"), FailsAt(3, "found '$'"));
  EXPECT_THAT(Expression::Parse("a ? b"), FailsAt(6, "expected ':' of '?:'"));
  EXPECT_THAT(Expression::Parse("min(1, 2"), FailsAt(9, "expected ',' or ')'"));
  EXPECT_THAT(Expression::Parse("(1))"), FailsAt(4, "found ')'"));
}

TEST(ExpressionParserTest, CommonSlipsGetAHint) {
  EXPECT_THAT(Expression::Parse("n = 4"), FailsAt(3, "comparison is '=='"));
  EXPECT_THAT(Expression::Parse("a & b"), FailsAt(3, "and is '&&'"));
  EXPECT_THAT(Expression::Parse("a | b"), FailsAt(3, "or is '||'"));
  EXPECT_THAT(Expression::Parse("cdiv(n, 4)"),
              FailsAt(1, "no function 'cdiv'; there are align_up"));
}

TEST(ExpressionParserTest, FunctionsCheckTheirOperands) {
  EXPECT_THAT(Expression::Parse("1 + ceil_div(n)"),
              FailsAt(5, "'ceil_div' takes 2 operands, not 1"));
  EXPECT_THAT(Expression::Parse("min()"), FailsAt(1, "at least 1 operand"));
}

TEST(ExpressionParserTest, NumbersAreDecimalIntegersOf64Bits) {
  EXPECT_THAT(Expression::Parse("9223372036854775807"), IsOk());
  EXPECT_THAT(Expression::Parse("-9223372036854775808"), IsOk());
  EXPECT_THAT(Expression::Parse("9223372036854775808"), FailsAt(1, "does not fit 64 bits"));
  EXPECT_THAT(Expression::Parse("1 - 99999999999999999999"), FailsAt(5, "does not fit 64 bits"));
  EXPECT_THAT(Expression::Parse("0x10"), FailsAt(2, "decimal integer"));
  EXPECT_THAT(Expression::Parse("1.5"), FailsAt(2, "decimal integer"));
}

TEST(ExpressionParserTest, NestingIsBounded) {
  const auto nested = [](int levels) {
    return std::string(static_cast<size_t>(levels), '-') + "n";
  };
  EXPECT_THAT(Expression::Parse(nested(63)), IsOk());
  EXPECT_THAT(Expression::Parse(nested(64)), FailsAt(1, "nested more than 64 levels deep"));
  // Far deeper than the stack would take.
  EXPECT_THAT(Expression::Parse(std::string(4000, '(')),
              StatusIs(kInvalidArgument, HasSubstr("nested more than 64 levels")));
  EXPECT_THAT(Expression::Parse(std::string(4000, '!')),
              StatusIs(kInvalidArgument, HasSubstr("nested more than 64 levels")));
  std::string sum = "n";
  for (int i = 0; i < 500; ++i) sum += "+n";
  EXPECT_THAT(Expression::Parse(sum), StatusIs(kInvalidArgument, HasSubstr("levels deep")));
}

TEST(ExpressionParserTest, LongTextIsRefused) {
  EXPECT_THAT(Expression::Parse(std::string(4096, ' ') + "1"),
              StatusIs(kInvalidArgument, HasSubstr("4097 bytes; at most 4096")));
}

}  // namespace
}  // namespace hone
