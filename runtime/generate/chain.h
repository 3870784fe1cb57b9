// A fused elementwise operator chain: what "silu(a) * b" means, as a typed canonical tree.
//
// The source generator (chain_source.h) and the interpreter that checks its kernels
// (runtime/device/chain_interpreter.h) both start from this tree and share nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

enum class ChainOp {
  kInput,   // Node::index
  kScalar,  // Node::index
  kNumber,  // Node::number
  kNegate,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  // Conditions; operands are exact.
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  // Functions of one operand.
  kAbs,
  kExp,
  kLog,
  kSqrt,
  kRsqrt,
  kTanh,
  kErf,
  kRelu,
  kSigmoid,
  kSilu,
  kGelu,
  kGeluTanh,
  // Of two and three.
  kMin,
  kMax,
  kClamp,  // x, low, high
  kWhere,  // condition, x, y
};

// What a chain may mention: names of a template's arguments.
struct ChainNames {
  std::vector<std::string> inputs;
  std::vector<std::string> scalars;
};

struct ChainLimits {
  static constexpr size_t kTextBytes = 4096;
  static constexpr int kDepth = 64;
  static constexpr size_t kNodes = 256;
};

// Immutable. Thread-safe.
class Chain {
 public:
  struct Node {
    ChainOp op = ChainOp::kNumber;
    int index = 0;              // of an input or scalar
    float number = 0;           // finite
    std::vector<int> operands;  // indices of nodes before this one
    // No rounding happened on the way: inputs, scalars, numbers, and choices among them.
    bool exact = false;
    bool condition = false;

    friend bool operator==(const Node&, const Node&) = default;
  };

  // INVALID_ARGUMENT "column 7: ..." (columns are bytes from 1) says what was expected there:
  // unknown names, wrong numbers of operands, conditions and numbers mixed up, limits exceeded, no
  // input read.
  static absl::StatusOr<Chain> Parse(absl::string_view text, const ChainNames& names);

  // Operands before what uses them, every subtree once; the last is the result.
  const std::vector<Node>& nodes() const { return nodes_; }
  const ChainNames& names() const { return names_; }
  // The canonical text: no spaces, only needed parentheses, shortest numbers. Parses to an equal
  // chain. Operands keep their order: a+b and b+a are two chains.
  const std::string& text() const { return text_; }

  bool ReadsInput(size_t index) const { return Uses(ChainOp::kInput, index); }
  bool UsesScalar(size_t index) const { return Uses(ChainOp::kScalar, index); }
  // By name, of either kind.
  bool Uses(absl::string_view name) const;
  // Nodes that compute something.
  int operations() const;

 private:
  Chain(std::vector<Node> nodes, ChainNames names);
  bool Uses(ChainOp op, size_t index) const;

  std::vector<Node> nodes_;
  ChainNames names_;
  std::string text_;
};

// A function of the language, with its name and number of operands.
struct ChainFunction {
  absl::string_view name;
  ChainOp op;
  size_t operands;
};
// nullptr if there is no such function.
const ChainFunction* FindChainFunction(absl::string_view name);
// "abs, exp, ...".
std::string ChainFunctionNames();

}  // namespace hone
