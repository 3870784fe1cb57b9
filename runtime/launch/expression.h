// hone's expression language: integers, booleans as 0 and 1, and names of data types and choices.
//
// Parsed once by the daemon; what clients get is a tree with everything known already folded in.
// Values are 64-bit signed integers. Every operation is checked: overflow, division by zero, and a
// logarithm of a number below 1 are errors, never wrapped values. `&&`, `||` and `?:` do not
// evaluate the operand they do not need. Division truncates towards zero.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/launch/data_type.h"

namespace hone {

// What a name stands for. A string is a choice's text.
using ExpressionValue = std::variant<int64_t, DataType, std::string>;
using ExpressionBindings = std::map<std::string, ExpressionValue>;
// The bindings left at launch time: dynamic sizes and device facts.
using SizeBindings = std::map<std::string, int64_t>;

// Immutable; copies share the tree. Thread-safe.
class Expression {
 public:
  // Values are stored and sent; names stand in OpName and in the proto.
  enum class Op {
    kConst,
    kVar,
    kNeg,
    kNot,
    kAdd,
    kSub,
    kMul,
    kDiv,
    kMod,
    kEq,
    kNe,
    kLt,
    kLe,
    kGt,
    kGe,
    kAnd,
    kOr,
    kSelect,
    kCeilDiv,
    kMin,
    kMax,
    kAlignUp,
    kLog2,
    kSizeOf,
    kBits,
  };

  // The constant 0.
  Expression();
  static Expression Constant(int64_t value);
  static Expression Variable(std::string name);
  // Builds an operator node; INVALID_ARGUMENT if the number of operands does not fit.
  static absl::StatusOr<Expression> Make(Op op, std::vector<Expression> operands);

  // INVALID_ARGUMENT with the column and what was expected. Nesting is bounded to 64, text to 4
  // KiB.
  static absl::StatusOr<Expression> Parse(absl::string_view text);

  // The value with every name bound; INVALID_ARGUMENT names an unbound name.
  absl::StatusOr<int64_t> Evaluate(const ExpressionBindings& bindings) const;
  absl::StatusOr<int64_t> Evaluate(const SizeBindings& sizes) const;

  // Replaces the bound names and folds constants. Names of data types and choices must all be
  // bound. An operation that fails on constants (a division by zero) is an error here.
  absl::StatusOr<Expression> Bind(const ExpressionBindings& bindings) const;

  // Free names, sorted.
  std::set<std::string> Variables() const;
  bool is_constant() const;
  // REQUIRES: is_constant().
  int64_t constant() const;

  Op op() const;
  const std::vector<Expression>& operands() const;
  // REQUIRES: op() == kVar.
  const std::string& variable() const;

  // Text that Parse reads back to an equal tree.
  std::string ToString() const;

  friend bool operator==(const Expression& a, const Expression& b) {
    return a.ToString() == b.ToString();
  }

 private:
  struct Node;
  explicit Expression(std::shared_ptr<const Node> node);
  std::shared_ptr<const Node> node_;
};

absl::string_view OpName(Expression::Op op);

}  // namespace hone
