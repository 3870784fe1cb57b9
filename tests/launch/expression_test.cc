#include "runtime/launch/expression.h"

#include <limits>

#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Op = Expression::Op;
using enum absl::StatusCode;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

Expression Parsed(absl::string_view text) {
  absl::StatusOr<Expression> e = Expression::Parse(text);
  EXPECT_THAT(e, IsOk()) << text;
  return e.ok() ? *e : Expression();
}

absl::StatusOr<int64_t> Value(absl::string_view text, const SizeBindings& sizes = {}) {
  return Parsed(text).Evaluate(sizes);
}

TEST(ExpressionTest, ArithmeticFollowsC) {
  EXPECT_THAT(Value("2 + 3 * 4"), IsOkAndHolds(14));
  EXPECT_THAT(Value("(2 + 3) * 4"), IsOkAndHolds(20));
  EXPECT_THAT(Value("10 - 4 - 3"), IsOkAndHolds(3));
  EXPECT_THAT(Value("100 / 7 / 2"), IsOkAndHolds(7));
  EXPECT_THAT(Value("-7 / 2"), IsOkAndHolds(-3));
  EXPECT_THAT(Value("-7 % 3"), IsOkAndHolds(-1));
  EXPECT_THAT(Value("- -5"), IsOkAndHolds(5));
  EXPECT_THAT(Value("!0 + !7"), IsOkAndHolds(1));
}

TEST(ExpressionTest, ComparisonsAndLogicGiveZeroOrOne) {
  EXPECT_THAT(Value("3 < 4"), IsOkAndHolds(1));
  EXPECT_THAT(Value("3 >= 4"), IsOkAndHolds(0));
  EXPECT_THAT(Value("1 + 1 == 2 && 7"), IsOkAndHolds(1));
  EXPECT_THAT(Value("0 || 9"), IsOkAndHolds(1));
  EXPECT_THAT(Value("true && !false"), IsOkAndHolds(1));
  EXPECT_THAT(Value("1 || 0 && 0"), IsOkAndHolds(1));  // && binds tighter
  EXPECT_THAT(Value("2 < 3 == 1"), IsOkAndHolds(1));   // relations bind tighter than equality
}

TEST(ExpressionTest, SelectGroupsFromTheRight) {
  EXPECT_THAT(Value("0 ? 1 : 0 ? 2 : 3"), IsOkAndHolds(3));
  EXPECT_THAT(Value("1 ? 2 : 1 / 0"), IsOkAndHolds(2));
}

TEST(ExpressionTest, Functions) {
  EXPECT_THAT(Value("ceil_div(10, 4)"), IsOkAndHolds(3));
  EXPECT_THAT(Value("ceil_div(8, 4)"), IsOkAndHolds(2));
  EXPECT_THAT(Value("ceil_div(0, 4)"), IsOkAndHolds(0));
  EXPECT_THAT(Value("ceil_div(-5, 4)"), IsOkAndHolds(-1));
  EXPECT_THAT(Value("align_up(10, 16)"), IsOkAndHolds(16));
  EXPECT_THAT(Value("align_up(32, 16)"), IsOkAndHolds(32));
  EXPECT_THAT(Value("min(3)"), IsOkAndHolds(3));
  EXPECT_THAT(Value("min(3, 1, 2)"), IsOkAndHolds(1));
  EXPECT_THAT(Value("max(3, 1, 7, 2)"), IsOkAndHolds(7));
  EXPECT_THAT(Value("log2(1)"), IsOkAndHolds(0));
  EXPECT_THAT(Value("log2(1023)"), IsOkAndHolds(9));
  EXPECT_THAT(Value("sizeof(F32) + bits(F16)"), IsOkAndHolds(20));
}

TEST(ExpressionTest, OverflowIsAnErrorNotAWrappedValue) {
  const SizeBindings sizes{{"big", kMax}, {"small", kMin}, {"m1", -1}};
  for (const char* text :
       {"big + 1", "small - 1", "big * 2", "-small", "small / m1", "align_up(big, 4096)"}) {
    EXPECT_THAT(Value(text, sizes), StatusIs(kOutOfRange, HasSubstr("does not fit 64 bits")))
        << text;
  }
  EXPECT_THAT(Value("small % m1", sizes), IsOkAndHolds(0));
  EXPECT_THAT(Value("ceil_div(big, 2)", sizes), IsOkAndHolds(kMax / 2 + 1));
}

TEST(ExpressionTest, DomainErrorsShowTheNumbers) {
  const SizeBindings sizes{{"n", 10}, {"zero", 0}};
  EXPECT_THAT(Value("n / zero", sizes),
              StatusIs(kOutOfRange, HasSubstr("10 / 0: division by zero")));
  EXPECT_THAT(Value("n % zero", sizes), StatusIs(kOutOfRange, HasSubstr("division by zero")));
  EXPECT_THAT(Value("ceil_div(n, zero)", sizes),
              StatusIs(kOutOfRange, HasSubstr("ceil_div(10, 0)")));
  EXPECT_THAT(Value("align_up(n, -n)", sizes),
              StatusIs(kOutOfRange, HasSubstr("must be positive")));
  EXPECT_THAT(Value("log2(zero)", sizes), StatusIs(kOutOfRange, HasSubstr("at least 1")));
}

TEST(ExpressionTest, OperandsThatAreNotNeededAreNotEvaluated) {
  EXPECT_THAT(Value("n != 0 && 10 / n > 1", {{"n", 0}}), IsOkAndHolds(0));
  EXPECT_THAT(Value("n == 0 || 10 / n > 1", {{"n", 0}}), IsOkAndHolds(1));
  EXPECT_THAT(Value("n == 0 ? 1 : 10 / n", {{"n", 0}}), IsOkAndHolds(1));
}

TEST(ExpressionTest, UnboundNamesAreNamed) {
  EXPECT_THAT(Value("n + XBLOCK", {{"n", 1}}), StatusIs(kInvalidArgument, HasSubstr("'XBLOCK'")));
}

TEST(ExpressionTest, DeviceFactsAreVariables) {
  const Expression e = Parsed("2 * device.sm_count");
  EXPECT_THAT(e.Variables(), ElementsAre("device.sm_count"));
  EXPECT_THAT(e.Evaluate(SizeBindings{{"device.sm_count", 132}}), IsOkAndHolds(264));
}

TEST(ExpressionTest, TypesAndChoicesCompareByName) {
  const ExpressionBindings bindings{
      {"T", DataType::kF16}, {"U", DataType::kF32}, {"ACT", std::string("act::relu")}, {"n", 4}};
  const auto value = [&](absl::string_view text) { return Parsed(text).Evaluate(bindings); };
  EXPECT_THAT(value("T == F16"), IsOkAndHolds(1));
  EXPECT_THAT(value("F32 == T"), IsOkAndHolds(0));
  EXPECT_THAT(value("T != U"), IsOkAndHolds(1));
  EXPECT_THAT(value("ACT == act::relu && n == 4"), IsOkAndHolds(1));
  EXPECT_THAT(value("ACT == gelu"), IsOkAndHolds(0));
  EXPECT_THAT(value("sizeof(T) * n + bits(U)"), IsOkAndHolds(40));
  EXPECT_THAT(value("T + 1"), StatusIs(kInvalidArgument, HasSubstr("'T' is F16")));
  EXPECT_THAT(value("sizeof(n)"), StatusIs(kInvalidArgument, HasSubstr("must be a data type")));
}

TEST(ExpressionTest, BindFoldsWhatIsKnown) {
  const ExpressionBindings bindings{{"XBLOCK", 256}, {"VEC", 4}, {"T", DataType::kBF16}};
  absl::StatusOr<Expression> grid = Parsed("ceil_div(n, XBLOCK * VEC)").Bind(bindings);
  ASSERT_THAT(grid, IsOk());
  EXPECT_EQ(grid->ToString(), "ceil_div(n, 1024)");
  EXPECT_THAT(grid->Variables(), ElementsAre("n"));

  absl::StatusOr<Expression> bytes = Parsed("VEC * sizeof(T)").Bind(bindings);
  ASSERT_THAT(bytes, IsOk());
  ASSERT_TRUE(bytes->is_constant());
  EXPECT_EQ(bytes->constant(), 8);
}

TEST(ExpressionTest, BindDropsBranchesThatCannotRun) {
  const ExpressionBindings bindings{{"VEC", 1}, {"zero", 0}};
  const auto bound = [&](absl::string_view text) {
    absl::StatusOr<Expression> e = Parsed(text).Bind(bindings);
    return e.ok() ? e->ToString() : e.status().ToString();
  };
  EXPECT_EQ(bound("VEC == 1 || n % VEC == 0"), "1");
  EXPECT_EQ(bound("VEC == 1 && n > 0"), "n > 0");
  EXPECT_EQ(bound("VEC == 1 && n"), "n != 0");  // still 0 or 1
  EXPECT_EQ(bound("VEC == 2 ? 1 / zero : n"), "n");
  EXPECT_EQ(bound("zero && 1 / zero"), "0");
  EXPECT_THAT(bound("n + 1 / zero"), HasSubstr("division by zero"));
}

TEST(ExpressionTest, MakeChecksOperandCounts) {
  EXPECT_THAT(Expression::Make(Op::kAdd, {Expression::Constant(1)}),
              StatusIs(kInvalidArgument, HasSubstr("'add' takes 2 operands, not 1")));
  EXPECT_THAT(Expression::Make(Op::kMin, {}),
              StatusIs(kInvalidArgument, HasSubstr("at least 1 operand")));
  EXPECT_THAT(Expression::Make(Op::kVar, {}), StatusIs(kInvalidArgument, HasSubstr("var")));
}

TEST(ExpressionTest, TheDefaultIsZero) {
  EXPECT_TRUE(Expression().is_constant());
  EXPECT_EQ(Expression().constant(), 0);
  EXPECT_EQ(Expression(), Expression::Constant(0));
}

}  // namespace
}  // namespace hone
