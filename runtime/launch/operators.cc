#include "runtime/launch/operators.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hone {
namespace {

using Op = Expression::Op;

// In the order of Op.
constexpr std::array<OperatorFacts, 25> kOperators{{
    {Op::kConst, "const", "", 0, 0, 0, false, false},
    {Op::kVar, "var", "", 0, 0, 0, false, false},
    {Op::kNeg, "neg", "-", 1, 1, 0, false, false},
    {Op::kNot, "not", "!", 1, 1, 0, false, true},
    {Op::kAdd, "add", "+", 2, 2, 6, false, false},
    {Op::kSub, "sub", "-", 2, 2, 6, false, false},
    {Op::kMul, "mul", "*", 2, 2, 7, false, false},
    {Op::kDiv, "div", "/", 2, 2, 7, false, false},
    {Op::kMod, "mod", "%", 2, 2, 7, false, false},
    {Op::kEq, "eq", "==", 2, 2, 4, false, true},
    {Op::kNe, "ne", "!=", 2, 2, 4, false, true},
    {Op::kLt, "lt", "<", 2, 2, 5, false, true},
    {Op::kLe, "le", "<=", 2, 2, 5, false, true},
    {Op::kGt, "gt", ">", 2, 2, 5, false, true},
    {Op::kGe, "ge", ">=", 2, 2, 5, false, true},
    {Op::kAnd, "and", "&&", 2, 2, 3, false, true},
    {Op::kOr, "or", "||", 2, 2, 2, false, true},
    {Op::kSelect, "select", "?", 3, 3, 1, false, false},
    {Op::kCeilDiv, "ceil_div", "ceil_div", 2, 2, 0, true, false},
    {Op::kMin, "min", "min", 1, -1, 0, true, false},
    {Op::kMax, "max", "max", 1, -1, 0, true, false},
    {Op::kAlignUp, "align_up", "align_up", 2, 2, 0, true, false},
    {Op::kLog2, "log2", "log2", 1, 1, 0, true, false},
    {Op::kSizeOf, "sizeof", "sizeof", 1, 1, 0, true, false},
    {Op::kBits, "bits", "bits", 1, 1, 0, true, false},
}};

absl::Status Failure(Op op, absl::Span<const int64_t> operands, absl::string_view why) {
  const OperatorFacts& facts = FactsOf(op);
  std::string operation;
  if (facts.function) {
    operation = absl::StrCat(facts.spelling, "(", absl::StrJoin(operands, ", "), ")");
  } else if (operands.size() == 1) {
    operation = absl::StrCat(facts.spelling, "(", operands[0], ")");
  } else {
    operation = absl::StrCat(operands[0], " ", facts.spelling, " ", operands[1]);
  }
  return absl::OutOfRangeError(absl::StrCat(operation, ": ", why));
}

constexpr absl::string_view kOverflow = "the result does not fit 64 bits";
constexpr absl::string_view kNotArithmetic = "is not arithmetic";

// Towards plus infinity; b is positive.
int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace

const OperatorFacts& FactsOf(Op op) { return kOperators[static_cast<size_t>(op)]; }

const OperatorFacts* FindFunction(absl::string_view spelling) {
  for (const OperatorFacts& facts : kOperators) {
    if (facts.function && facts.spelling == spelling) return &facts;
  }
  return nullptr;
}

const OperatorFacts* FindOperator(absl::string_view name) {
  for (const OperatorFacts& facts : kOperators) {
    if (facts.name == name) return &facts;
  }
  return nullptr;
}

absl::string_view FunctionList() { return "align_up, bits, ceil_div, log2, max, min, sizeof"; }

absl::string_view TryApply(Op op, absl::Span<const int64_t> operands, int64_t* result) {
  const int64_t a = operands[0];
  const int64_t b = operands.size() > 1 ? operands[1] : 0;
  const auto give = [result](int64_t value) -> absl::string_view {
    *result = value;
    return {};
  };
  const auto unless = [](bool overflow) { return overflow ? kOverflow : absl::string_view(); };
  switch (op) {
    case Op::kNeg:
      return unless(__builtin_sub_overflow(int64_t{0}, a, result));
    case Op::kNot:
      return give(a == 0 ? 1 : 0);
    case Op::kAdd:
      return unless(__builtin_add_overflow(a, b, result));
    case Op::kSub:
      return unless(__builtin_sub_overflow(a, b, result));
    case Op::kMul:
      return unless(__builtin_mul_overflow(a, b, result));
    case Op::kDiv:
    case Op::kMod:
      if (b == 0) return "division by zero";
      // The processor traps on the minimum divided by -1.
      if (b == -1) {
        if (op == Op::kMod) return give(0);
        return unless(__builtin_sub_overflow(int64_t{0}, a, result));
      }
      return give(op == Op::kDiv ? a / b : a % b);
    case Op::kEq:
      return give(a == b ? 1 : 0);
    case Op::kNe:
      return give(a != b ? 1 : 0);
    case Op::kLt:
      return give(a < b ? 1 : 0);
    case Op::kLe:
      return give(a <= b ? 1 : 0);
    case Op::kGt:
      return give(a > b ? 1 : 0);
    case Op::kGe:
      return give(a >= b ? 1 : 0);
    case Op::kAnd:
      return give(a != 0 && b != 0 ? 1 : 0);
    case Op::kOr:
      return give(a != 0 || b != 0 ? 1 : 0);
    case Op::kSelect:
      return give(a != 0 ? b : operands[2]);
    case Op::kCeilDiv:
      if (b <= 0) return "the divisor must be positive";
      return give(CeilDiv(a, b));
    case Op::kAlignUp:
      if (b <= 0) return "the alignment must be positive";
      return unless(__builtin_mul_overflow(CeilDiv(a, b), b, result));
    case Op::kMin:
      return give(*std::min_element(operands.begin(), operands.end()));
    case Op::kMax:
      return give(*std::max_element(operands.begin(), operands.end()));
    case Op::kLog2:
      if (a < 1) return "the argument must be at least 1";
      return give(std::bit_width(static_cast<uint64_t>(a)) - 1);
    case Op::kConst:
    case Op::kVar:
    case Op::kSizeOf:
    case Op::kBits:
      break;
  }
  return kNotArithmetic;
}

absl::StatusOr<int64_t> Apply(Op op, absl::Span<const int64_t> operands) {
  int64_t result = 0;
  const absl::string_view why = TryApply(op, operands, &result);
  if (why.empty()) return result;
  if (why == kNotArithmetic) {
    return absl::InternalError(absl::StrCat("operator ", FactsOf(op).name, " ", why));
  }
  return Failure(op, operands, why);
}

}  // namespace hone
