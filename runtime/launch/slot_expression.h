// Expressions whose names are positions of an array: for evaluating one millions of times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/expression.h"

namespace hone {

// Same values and same failures as Expression::Evaluate. Immutable, thread-safe.
class SlotExpression {
 public:
  // names[i] is read from slots[i]. nullopt if the expression has any other name or still asks for
  // the size of a data type.
  static std::optional<SlotExpression> Create(const Expression& expression,
                                              const std::vector<std::string>& names);

  // nullopt where Evaluate would be an error. Bit i of `unbound`: slot i has no value, so that an
  // expression that comes to need it fails; only the first 64 slots can be without.
  std::optional<int64_t> Evaluate(const int64_t* slots, uint64_t unbound = 0) const {
    int64_t result = 0;
    if (!EvaluateNode(root_, slots, unbound, &result)) return std::nullopt;
    return result;
  }

 private:
  struct Node {
    Expression::Op op = Expression::Op::kConst;
    int64_t value = 0;           // the constant or the slot
    uint32_t operands = 0;       // how many,
    uint32_t first_operand = 0;  // and where in operands_ they begin
  };

  SlotExpression() = default;
  std::optional<uint32_t> Add(const Expression& expression, const std::vector<std::string>& names);
  bool EvaluateNode(uint32_t index, const int64_t* slots, uint64_t unbound, int64_t* result) const;

  std::vector<Node> nodes_;
  std::vector<uint32_t> operands_;  // indices into nodes_
  uint32_t root_ = 0;
};

}  // namespace hone
