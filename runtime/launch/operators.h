// The arithmetic of expressions, shared by folding and evaluation, and the facts of each operator.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/launch/expression.h"

namespace hone {

// Levels of tree nesting; also keeps messages within protobuf's recursion limit of 100.
inline constexpr int kExpressionDepthMax = 64;

struct OperatorFacts {
  Expression::Op op;
  absl::string_view name;      // in messages
  absl::string_view spelling;  // in text: an infix or prefix sign, or a function's name
  int operands_min;
  int operands_max;  // -1: any number
  int precedence;    // of infix signs, higher binds tighter; 0: not infix
  bool function;
  bool boolean;  // the value is 0 or 1
};

const OperatorFacts& FactsOf(Expression::Op op);
// nullptr if there is no such function.
const OperatorFacts* FindFunction(absl::string_view spelling);
// nullptr if there is no such operator.
const OperatorFacts* FindOperator(absl::string_view name);
// "bits, ceil_div, ...", for messages.
absl::string_view FunctionList();

// Applies an operator to operands that are all known; for kAnd, kOr and kSelect too, which callers
// shorten first. OUT_OF_RANGE for overflow, division by zero, and arguments outside an operator's
// domain, with the operation and its numbers. REQUIRES: the operand count fits; not a leaf, kSizeOf
// or kBits.
absl::StatusOr<int64_t> Apply(Expression::Op op, absl::Span<const int64_t> operands);

// Apply without words for each failure, for walks over millions of points: why it fails, or an
// empty text and the value in `result`.
absl::string_view TryApply(Expression::Op op, absl::Span<const int64_t> operands, int64_t* result);

}  // namespace hone
