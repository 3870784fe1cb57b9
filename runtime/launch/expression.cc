#include "runtime/launch/expression.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/operators.h"

namespace hone {

struct Expression::Node {
  Op op = Op::kConst;
  int64_t constant = 0;
  std::string variable;
  std::vector<Expression> operands;
  int depth = 1;
};

namespace {

using Op = Expression::Op;
using Operands = absl::InlinedVector<int64_t, 4>;

absl::Status Unbound(absl::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' has no value"));
}

absl::Status NotANumber(absl::string_view name, const ExpressionValue& value) {
  const std::string text = std::holds_alternative<DataType>(value)
                               ? std::string(Name(std::get<DataType>(value)))
                               : std::get<std::string>(value);
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is ", text, ", where a number is needed"));
}

// The text of a data type or choice that an operand of == or != stands for. A name without a
// binding stands for itself when the other side is such a text: `T == F16`, `ACT == relu`.
std::optional<std::string> TextOf(const Expression& operand, const ExpressionBindings& bindings,
                                  bool unbound_names) {
  if (operand.op() != Op::kVar) return std::nullopt;
  const auto found = bindings.find(operand.variable());
  if (found == bindings.end()) {
    if (!unbound_names) return std::nullopt;
    // F16 and f16 are one type.
    const std::optional<DataType> type = ParseDataType(operand.variable());
    return type ? std::string(Name(*type)) : operand.variable();
  }
  if (const auto* type = std::get_if<DataType>(&found->second)) return std::string(Name(*type));
  if (const auto* text = std::get_if<std::string>(&found->second)) return *text;
  return std::nullopt;
}

// 0 or 1 if this compares data types or choices, else nullopt.
std::optional<int64_t> CompareTexts(const Expression& e, const ExpressionBindings& bindings) {
  if (e.op() != Op::kEq && e.op() != Op::kNe) return std::nullopt;
  const Expression& a = e.operands()[0];
  const Expression& b = e.operands()[1];
  std::optional<std::string> left = TextOf(a, bindings, /*unbound_names=*/false);
  std::optional<std::string> right = TextOf(b, bindings, /*unbound_names=*/false);
  if (!left && !right) return std::nullopt;
  if (!left) left = TextOf(a, bindings, /*unbound_names=*/true);
  if (!right) right = TextOf(b, bindings, /*unbound_names=*/true);
  if (!left || !right) return std::nullopt;
  return (*left == *right) == (e.op() == Op::kEq) ? 1 : 0;
}

// sizeof(T) or bits(T), T a bound name or a data type's own.
absl::StatusOr<int64_t> SizeOf(const Expression& e, const ExpressionBindings& bindings) {
  const Expression& operand = e.operands()[0];
  const int unit = e.op() == Op::kBits ? 8 : 1;
  if (operand.op() == Op::kVar) {
    const auto found = bindings.find(operand.variable());
    if (found == bindings.end()) {
      if (const std::optional<DataType> type = ParseDataType(operand.variable())) {
        return unit * SizeBytes(*type);
      }
      return Unbound(operand.variable());
    }
    if (const auto* type = std::get_if<DataType>(&found->second)) return unit * SizeBytes(*type);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(OpName(e.op()), "(", operand.ToString(), "): the operand must be a data type"));
}

// Bindings that know numbers only.
struct SizeLookup {
  const SizeBindings& sizes;
  absl::StatusOr<int64_t> Number(const std::string& name) const {
    const auto found = sizes.find(name);
    if (found == sizes.end()) return Unbound(name);
    return found->second;
  }
  const ExpressionBindings& Typed() const {
    static const auto& none = *new ExpressionBindings();
    return none;
  }
};

struct TypedLookup {
  const ExpressionBindings& bindings;
  absl::StatusOr<int64_t> Number(const std::string& name) const {
    const auto found = bindings.find(name);
    if (found == bindings.end()) return Unbound(name);
    if (const auto* number = std::get_if<int64_t>(&found->second)) return *number;
    return NotANumber(name, found->second);
  }
  const ExpressionBindings& Typed() const { return bindings; }
};

template <typename Lookup>
absl::StatusOr<int64_t> EvaluateIn(const Expression& e, const Lookup& lookup) {
  switch (e.op()) {
    case Op::kConst:
      return e.constant();
    case Op::kVar:
      return lookup.Number(e.variable());
    case Op::kSizeOf:
    case Op::kBits:
      return SizeOf(e, lookup.Typed());
    default:
      break;
  }
  if (const auto compared = CompareTexts(e, lookup.Typed())) return *compared;
  HONE_ASSIGN_OR_RETURN(const int64_t first, EvaluateIn(e.operands()[0], lookup));
  if (e.op() == Op::kAnd && first == 0) return 0;
  if (e.op() == Op::kOr && first != 0) return 1;
  if (e.op() == Op::kSelect) return EvaluateIn(e.operands()[first != 0 ? 1 : 2], lookup);
  Operands values{first};
  for (size_t i = 1; i < e.operands().size(); ++i) {
    HONE_ASSIGN_OR_RETURN(const int64_t value, EvaluateIn(e.operands()[i], lookup));
    values.push_back(value);
  }
  return Apply(e.op(), values);
}

void CollectVariables(const Expression& e, std::set<std::string>& names) {
  if (e.op() == Op::kVar) names.insert(e.variable());
  for (const Expression& operand : e.operands()) CollectVariables(operand, names);
}

// `e` as 0 or 1.
absl::StatusOr<Expression> AsBoolean(Expression e) {
  if (e.is_constant()) return Expression::Constant(e.constant() != 0 ? 1 : 0);
  if (FactsOf(e.op()).boolean) return e;
  return Expression::Make(Op::kNe, {std::move(e), Expression::Constant(0)});
}

}  // namespace

Expression::Expression(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

Expression::Expression() {
  static const auto& zero = *new std::shared_ptr<const Node>(std::make_shared<Node>());
  node_ = zero;
}

Expression Expression::Constant(int64_t value) {
  auto node = std::make_shared<Node>();
  node->constant = value;
  return Expression(std::move(node));
}

Expression Expression::Variable(std::string name) {
  auto node = std::make_shared<Node>();
  node->op = Op::kVar;
  node->variable = std::move(name);
  return Expression(std::move(node));
}

absl::StatusOr<Expression> Expression::Make(Op op, std::vector<Expression> operands) {
  const OperatorFacts& facts = FactsOf(op);
  const int count = static_cast<int>(operands.size());
  if (op == Op::kConst || op == Op::kVar) {
    return absl::InvalidArgumentError(absl::StrCat("'", facts.name, "' is not an operator"));
  }
  if (count < facts.operands_min || (facts.operands_max >= 0 && count > facts.operands_max)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", facts.name, "' takes ", facts.operands_max < 0 ? "at least " : "", facts.operands_min,
        facts.operands_min == 1 ? " operand" : " operands", ", not ", count));
  }
  auto node = std::make_shared<Node>();
  node->op = op;
  for (const Expression& operand : operands) {
    node->depth = std::max(node->depth, operand.node_->depth + 1);
  }
  if (node->depth > kExpressionDepthMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("nested more than ", kExpressionDepthMax, " levels deep"));
  }
  node->operands = std::move(operands);
  return Expression(std::move(node));
}

absl::StatusOr<int64_t> Expression::Evaluate(const ExpressionBindings& bindings) const {
  return EvaluateIn(*this, TypedLookup{bindings});
}

absl::StatusOr<int64_t> Expression::Evaluate(const SizeBindings& sizes) const {
  return EvaluateIn(*this, SizeLookup{sizes});
}

absl::StatusOr<Expression> Expression::Bind(const ExpressionBindings& bindings) const {
  if (op() == Op::kConst) return *this;
  if (op() == Op::kVar) {
    const auto found = bindings.find(variable());
    if (found == bindings.end()) return *this;
    if (const auto* number = std::get_if<int64_t>(&found->second)) return Constant(*number);
    return NotANumber(variable(), found->second);
  }
  if (op() == Op::kSizeOf || op() == Op::kBits) {
    HONE_ASSIGN_OR_RETURN(const int64_t size, SizeOf(*this, bindings));
    return Constant(size);
  }
  if (const auto compared = CompareTexts(*this, bindings)) return Constant(*compared);

  HONE_ASSIGN_OR_RETURN(Expression first, operands()[0].Bind(bindings));
  if (first.is_constant()) {
    const bool holds = first.constant() != 0;
    if (op() == Op::kSelect) return operands()[holds ? 1 : 2].Bind(bindings);
    if (op() == Op::kAnd && !holds) return Constant(0);
    if (op() == Op::kOr && holds) return Constant(1);
    if (op() == Op::kAnd || op() == Op::kOr) {
      HONE_ASSIGN_OR_RETURN(Expression second, operands()[1].Bind(bindings));
      return AsBoolean(std::move(second));
    }
  }
  std::vector<Expression> bound;
  bound.push_back(std::move(first));
  for (size_t i = 1; i < operands().size(); ++i) {
    HONE_ASSIGN_OR_RETURN(Expression operand, operands()[i].Bind(bindings));
    bound.push_back(std::move(operand));
  }
  const bool known =
      std::all_of(bound.begin(), bound.end(), [](const Expression& e) { return e.is_constant(); });
  if (!known) return Make(op(), std::move(bound));
  Operands values;
  for (const Expression& operand : bound) values.push_back(operand.constant());
  HONE_ASSIGN_OR_RETURN(const int64_t value, Apply(op(), values));
  return Constant(value);
}

std::set<std::string> Expression::Variables() const {
  std::set<std::string> names;
  CollectVariables(*this, names);
  return names;
}

bool Expression::is_constant() const { return node_->op == Op::kConst; }
int64_t Expression::constant() const { return node_->constant; }
Op Expression::op() const { return node_->op; }
const std::vector<Expression>& Expression::operands() const { return node_->operands; }
const std::string& Expression::variable() const { return node_->variable; }

absl::string_view OpName(Expression::Op op) { return FactsOf(op).name; }

}  // namespace hone
