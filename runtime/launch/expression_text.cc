// Expression::ToString: the fewest parentheses that Parse reads back to an equal tree.
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/launch/expression.h"
#include "runtime/launch/operators.h"

namespace hone {
namespace {

using Op = Expression::Op;

// Above every infix sign: prefix signs, names, numbers and calls.
constexpr int kTight = 100;

int PrecedenceOf(const Expression& e) {
  const int precedence = FactsOf(e.op()).precedence;
  return precedence == 0 ? kTight : precedence;
}

std::string Operand(const Expression& e, int precedence_min) {
  const std::string text = e.ToString();
  return PrecedenceOf(e) < precedence_min ? absl::StrCat("(", text, ")") : text;
}

std::string Call(const Expression& e) {
  std::string text = absl::StrCat(FactsOf(e.op()).spelling, "(");
  for (size_t i = 0; i < e.operands().size(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", e.operands()[i].ToString());
  }
  return text + ")";
}

std::string Prefix(const Expression& e) {
  const Expression& operand = e.operands()[0];
  const absl::string_view sign = FactsOf(e.op()).spelling;
  // "-5" would be read as a number.
  if (operand.is_constant()) return absl::StrCat(sign, "(", operand.constant(), ")");
  return absl::StrCat(sign, Operand(operand, kTight));
}

}  // namespace

std::string Expression::ToString() const {
  const OperatorFacts& facts = FactsOf(op());
  if (op() == Op::kConst) return absl::StrCat(constant());
  if (op() == Op::kVar) return variable();
  if (facts.function) return Call(*this);
  if (op() == Op::kSelect) {
    return absl::StrCat(Operand(operands()[0], facts.precedence + 1), " ? ",
                        operands()[1].ToString(), " : ", operands()[2].ToString());
  }
  if (operands().size() == 1) return Prefix(*this);
  // Infix signs group from the left.
  return absl::StrCat(Operand(operands()[0], facts.precedence), " ", facts.spelling, " ",
                      Operand(operands()[1], facts.precedence + 1));
}

}  // namespace hone
