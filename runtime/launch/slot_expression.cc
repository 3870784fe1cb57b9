#include "runtime/launch/slot_expression.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "runtime/launch/operators.h"

namespace hone {

using Op = Expression::Op;

std::optional<SlotExpression> SlotExpression::Create(const Expression& expression,
                                                     const std::vector<std::string>& names) {
  SlotExpression result;
  const std::optional<uint32_t> root = result.Add(expression, names);
  if (!root) return std::nullopt;
  result.root_ = *root;
  return result;
}

std::optional<uint32_t> SlotExpression::Add(const Expression& expression,
                                            const std::vector<std::string>& names) {
  Node node{.op = expression.op()};
  if (node.op == Op::kSizeOf || node.op == Op::kBits) return std::nullopt;
  if (node.op == Op::kConst) node.value = expression.constant();
  if (node.op == Op::kVar) {
    const auto found = std::find(names.begin(), names.end(), expression.variable());
    if (found == names.end()) return std::nullopt;
    node.value = found - names.begin();
  }
  std::vector<uint32_t> operands;
  for (const Expression& operand : expression.operands()) {
    const std::optional<uint32_t> index = Add(operand, names);
    if (!index) return std::nullopt;
    operands.push_back(*index);
  }
  node.operands = static_cast<uint32_t>(operands.size());
  node.first_operand = static_cast<uint32_t>(operands_.size());
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  nodes_.push_back(node);
  return static_cast<uint32_t>(nodes_.size() - 1);
}

bool SlotExpression::EvaluateNode(uint32_t index, const int64_t* slots, uint64_t unbound,
                                  int64_t* result) const {
  const Node& node = nodes_[index];
  if (node.op == Op::kConst) {
    *result = node.value;
    return true;
  }
  if (node.op == Op::kVar) {
    *result = slots[node.value];
    return unbound == 0 || node.value >= 64 || (unbound >> node.value & 1) == 0;
  }
  const uint32_t* operands = &operands_[node.first_operand];
  int64_t first = 0;
  if (!EvaluateNode(operands[0], slots, unbound, &first)) return false;
  if (node.op == Op::kSelect) {
    return EvaluateNode(operands[first != 0 ? 1 : 2], slots, unbound, result);
  }
  if ((node.op == Op::kAnd && first == 0) || (node.op == Op::kOr && first != 0)) {
    *result = first != 0 ? 1 : 0;
    return true;
  }
  if (node.operands == 2) {
    int64_t values[2] = {first, 0};
    return EvaluateNode(operands[1], slots, unbound, &values[1]) &&
           TryApply(node.op, values, result).empty();
  }
  absl::InlinedVector<int64_t, 8> values{first};
  for (uint32_t i = 1; i < node.operands; ++i) {
    values.push_back(0);
    if (!EvaluateNode(operands[i], slots, unbound, &values[i])) return false;
  }
  return TryApply(node.op, values, result).empty();
}

}  // namespace hone
