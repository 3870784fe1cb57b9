#include "runtime/generate/chain.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace hone {
namespace {

constexpr ChainFunction kFunctions[] = {
    {"abs", ChainOp::kAbs, 1},         {"exp", ChainOp::kExp, 1},
    {"log", ChainOp::kLog, 1},         {"sqrt", ChainOp::kSqrt, 1},
    {"rsqrt", ChainOp::kRsqrt, 1},     {"tanh", ChainOp::kTanh, 1},
    {"erf", ChainOp::kErf, 1},         {"relu", ChainOp::kRelu, 1},
    {"sigmoid", ChainOp::kSigmoid, 1}, {"silu", ChainOp::kSilu, 1},
    {"gelu", ChainOp::kGelu, 1},       {"gelu_tanh", ChainOp::kGeluTanh, 1},
    {"min", ChainOp::kMin, 2},         {"max", ChainOp::kMax, 2},
    {"clamp", ChainOp::kClamp, 3},     {"where", ChainOp::kWhere, 3},
};

// How tightly an operator binds; larger is tighter.
enum Binding { kComparison = 1, kSum = 2, kProduct = 3, kPrefix = 4, kPrimary = 5 };

struct Infix {
  ChainOp op;
  absl::string_view symbol;
  Binding binding;
};

constexpr Infix kInfixes[] = {
    {ChainOp::kAdd, "+", kSum},
    {ChainOp::kSubtract, "-", kSum},
    {ChainOp::kMultiply, "*", kProduct},
    {ChainOp::kDivide, "/", kProduct},
    {ChainOp::kLess, "<", kComparison},
    {ChainOp::kLessEqual, "<=", kComparison},
    {ChainOp::kGreater, ">", kComparison},
    {ChainOp::kGreaterEqual, ">=", kComparison},
    {ChainOp::kEqual, "==", kComparison},
    {ChainOp::kNotEqual, "!=", kComparison},
};

const Infix* FindInfix(ChainOp op) {
  const auto* found = std::find_if(std::begin(kInfixes), std::end(kInfixes),
                                   [op](const Infix& infix) { return infix.op == op; });
  return found == std::end(kInfixes) ? nullptr : found;
}

// The shortest text that reads back to the same float.
std::string NumberText(float number) {
  char text[32];
  const auto result = std::to_chars(text, text + sizeof(text), number);
  // "1e+05" is "1e5".
  return absl::StrReplaceAll(std::string(text, result.ptr),
                             {{"e+0", "e"}, {"e-0", "e-"}, {"e+", "e"}});
}

class Printer {
 public:
  explicit Printer(const Chain& chain) : chain_(chain) {}

  // In parentheses if it binds less tightly than `at_least`.
  std::string Text(int index, int at_least) const {
    const Chain::Node& node = chain_.nodes()[static_cast<size_t>(index)];
    int binding = kPrimary;
    const std::string text = Bare(node, &binding);
    return binding < at_least ? absl::StrCat("(", text, ")") : text;
  }

 private:
  std::string Bare(const Chain::Node& node, int* binding) const {
    const auto index = static_cast<size_t>(node.index);
    if (node.op == ChainOp::kInput) return chain_.names().inputs[index];
    if (node.op == ChainOp::kScalar) return chain_.names().scalars[index];
    if (node.op == ChainOp::kNumber) return NumberText(node.number);
    if (node.op == ChainOp::kNegate) {
      *binding = kPrefix;
      return absl::StrCat("-", Text(node.operands[0], kPrefix));
    }
    if (const Infix* infix = FindInfix(node.op)) {
      *binding = infix->binding;
      // Operators of one rank go from left to right, so the right operand binds tighter.
      return absl::StrCat(Text(node.operands[0], infix->binding), infix->symbol,
                          Text(node.operands[1], infix->binding + 1));
    }
    const auto* function = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                        [&](const ChainFunction& f) { return f.op == node.op; });
    return absl::StrCat(
        function->name, "(",
        absl::StrJoin(node.operands, ",",
                      [this](std::string* out, int operand) { *out += Text(operand, 0); }),
        ")");
  }

  const Chain& chain_;
};

}  // namespace

Chain::Chain(std::vector<Node> nodes, ChainNames names)
    : nodes_(std::move(nodes)), names_(std::move(names)) {
  text_ = Printer(*this).Text(static_cast<int>(nodes_.size()) - 1, 0);
}

bool Chain::Uses(ChainOp op, size_t index) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return node.op == op && static_cast<size_t>(node.index) == index;
  });
}

bool Chain::Uses(absl::string_view name) const {
  for (size_t i = 0; i < names_.inputs.size(); ++i) {
    if (names_.inputs[i] == name) return ReadsInput(i);
  }
  for (size_t i = 0; i < names_.scalars.size(); ++i) {
    if (names_.scalars[i] == name) return UsesScalar(i);
  }
  return false;
}

int Chain::operations() const {
  return static_cast<int>(std::count_if(nodes_.begin(), nodes_.end(),
                                        [](const Node& node) { return !node.operands.empty(); }));
}

const ChainFunction* FindChainFunction(absl::string_view name) {
  const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [name](const ChainFunction& f) { return f.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

std::string ChainFunctionNames() {
  return absl::StrJoin(kFunctions, ", ", [](std::string* out, const ChainFunction& function) {
    absl::StrAppend(out, function.name);
  });
}

}  // namespace hone
