#include "runtime/launch/slot_expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

Expression ExpressionOf(const std::string& text) {
  auto parsed = Expression::Parse(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status();
  return parsed.ok() ? *parsed : Expression();
}

TEST(SlotExpressionTest, GivesWhatTheExpressionGivesAndFailsWhereItFails) {
  const std::vector<std::string> names = {"a", "b", "c"};
  for (const char* text : {"7",
                           "a",
                           "-a",
                           "!b",
                           "a + b * c",
                           "a - b - c",
                           "a / b",
                           "a % b",
                           "a == b",
                           "a != b",
                           "a < b",
                           "a <= b",
                           "a > b",
                           "a >= b",
                           "a && c / b",
                           "a || c / b",
                           "a ? b : c / b",
                           "ceil_div(a, b)",
                           "align_up(a, b)",
                           "min(a, b, c)",
                           "max(a, b, c, 4)",
                           "log2(a)",
                           "a * 4611686018427387904 + b",
                           "(a + b) * (a + b) <= c || log2(c) > 2"}) {
    const Expression expression = ExpressionOf(text);
    const auto slots = SlotExpression::Create(expression, names);
    ASSERT_TRUE(slots.has_value()) << text;
    for (const int64_t a : {-3, 0, 1, 8}) {
      for (const int64_t b : {-1, 0, 2, 5}) {
        for (const int64_t c : {0, 16}) {
          const int64_t values[] = {a, b, c};
          const auto expected = expression.Evaluate(SizeBindings{{"a", a}, {"b", b}, {"c", c}});
          const auto given = slots->Evaluate(values);
          ASSERT_EQ(given.has_value(), expected.ok()) << text << " a=" << a << " b=" << b;
          EXPECT_EQ(given.value_or(0), expected.value_or(0)) << text << " a=" << a << " b=" << b;
        }
      }
    }
  }
}

TEST(SlotExpressionTest, NamesWithoutASlotAndSizesOfTypesAreNotForSlots) {
  EXPECT_EQ(SlotExpression::Create(ExpressionOf("a + d"), {"a"}), std::nullopt);
  EXPECT_EQ(SlotExpression::Create(ExpressionOf("sizeof(F32) * a"), {"a"}), std::nullopt);
  EXPECT_EQ(SlotExpression::Create(ExpressionOf("a == F32"), {"a"}), std::nullopt);
}

}  // namespace
}  // namespace hone
