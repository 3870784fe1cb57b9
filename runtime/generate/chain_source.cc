#include "runtime/generate/chain_source.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace hone {
namespace {

// Functions in single precision. With FAST, exponentials and divisions are off by a few units in
// the last place more, far less than a result of 16 bits can show. NaN as PyTorch has it: a
// comparison with it is false, so the order of operands decides what stays.
constexpr absl::string_view kFunctionsText = R"cuda(
#ifndef HONE_CHAIN_FUNCTIONS
#define HONE_CHAIN_FUNCTIONS
namespace hone_chain {
// One instruction each, without the care that subnormal numbers take.
__device__ inline float QuickReciprocal(float y) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(y));
  return result;
#else
  return 1.0f / y;
#endif
}
__device__ inline float QuickExp2(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}
template <bool FAST>
__device__ inline float Divide(float x, float y) {
  if constexpr (FAST) return x * QuickReciprocal(y);
  return x / y;
}
// By what is not computed and so may be the same for all elements, as a scale is: the compiler then
// computes its reciprocal once, which it does not see in assembly.
template <bool FAST>
__device__ inline float DivideByGiven(float x, float y) {
  if constexpr (FAST) return x * __fdividef(1.0f, y);
  return x / y;
}
template <bool FAST>
__device__ inline float Exp(float x) {
  if constexpr (FAST) return QuickExp2(x * 1.44269504f);
  return expf(x);
}
template <bool FAST>
__device__ inline float Sigmoid(float x) {
  return Divide<FAST>(1.0f, 1.0f + Exp<FAST>(-x));
}
template <bool FAST>
__device__ inline float Silu(float x) {
  return Divide<FAST>(x, 1.0f + Exp<FAST>(-x));
}
__device__ inline float Gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.707106781f)); }
// 0.5 * (1 + tanh(u)) is the sigmoid of 2 * u: one exponential, and no cancellation for negative x.
template <bool FAST>
__device__ inline float GeluTanh(float x) {
  const float twice_u = 1.59576912f * (x + 0.044715f * x * x * x);
  return Divide<FAST>(x, 1.0f + Exp<FAST>(-twice_u));
}
__device__ inline float Relu(float x) { return x < 0.0f ? 0.0f : x; }
__device__ inline float Min(float x, float y) { return x < y || x != x ? x : y; }
__device__ inline float Max(float x, float y) { return x > y || x != x ? x : y; }
}  // namespace hone_chain
#endif
)cuda";

// Nine digits tell all floats apart.
std::string NumberLiteral(float number) {
  std::string text = absl::StrFormat("%.9g", static_cast<double>(number));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return absl::StrCat(number < 0 ? "(" : "", text, "f", number < 0 ? ")" : "");
}

std::string ArgumentName(absl::string_view name) { return absl::StrCat("in_", name); }

class Writer {
 public:
  explicit Writer(const Chain& chain) : chain_(chain) {}

  std::string Statements() const {
    std::string text;
    const std::vector<Chain::Node>& nodes = chain_.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].operands.empty()) continue;
      absl::StrAppend(&text, "    const ", nodes[i].condition ? "bool" : "float", " t", i, " = ",
                      Computed(nodes[i]), ";\n");
    }
    absl::StrAppend(&text, "    return ", Operand(static_cast<int>(nodes.size()) - 1), ";\n");
    return text;
  }

 private:
  bool IsGiven(int index) const {
    return chain_.nodes()[static_cast<size_t>(index)].operands.empty();
  }

  std::string Operand(int index) const {
    const Chain::Node& node = chain_.nodes()[static_cast<size_t>(index)];
    const auto at = static_cast<size_t>(node.index);
    switch (node.op) {
      case ChainOp::kInput:
        return ArgumentName(chain_.names().inputs[at]);
      case ChainOp::kScalar:
        return ArgumentName(chain_.names().scalars[at]);
      case ChainOp::kNumber:
        return NumberLiteral(node.number);
      default:
        return absl::StrCat("t", index);
    }
  }

  std::string Computed(const Chain::Node& node) const {
    const auto operand = [&](size_t i) { return Operand(node.operands[i]); };
    const auto infix = [&](absl::string_view symbol) {
      return absl::StrCat(operand(0), " ", symbol, " ", operand(1));
    };
    const auto call = [&](absl::string_view function) {
      return absl::StrCat(function, "(",
                          absl::StrJoin(node.operands, ", ",
                                        [this](std::string* out, int i) { *out += Operand(i); }),
                          ")");
    };
    switch (node.op) {
      case ChainOp::kNegate:
        return absl::StrCat("-", operand(0));
      case ChainOp::kAdd:
        return infix("+");
      case ChainOp::kSubtract:
        return infix("-");
      case ChainOp::kMultiply:
        return infix("*");
      case ChainOp::kDivide:
        return call(IsGiven(node.operands[1]) ? "hone_chain::DivideByGiven<FAST>"
                                              : "hone_chain::Divide<FAST>");
      case ChainOp::kLess:
        return infix("<");
      case ChainOp::kLessEqual:
        return infix("<=");
      case ChainOp::kGreater:
        return infix(">");
      case ChainOp::kGreaterEqual:
        return infix(">=");
      case ChainOp::kEqual:
        return infix("==");
      case ChainOp::kNotEqual:
        return infix("!=");
      case ChainOp::kAbs:
        return call("fabsf");
      case ChainOp::kExp:
        return call("hone_chain::Exp<FAST>");
      case ChainOp::kLog:
        return call("logf");
      case ChainOp::kSqrt:
        return call("sqrtf");
      case ChainOp::kRsqrt:
        return call("rsqrtf");
      case ChainOp::kTanh:
        return call("tanhf");
      case ChainOp::kErf:
        return call("erff");
      case ChainOp::kRelu:
        return call("hone_chain::Relu");
      case ChainOp::kSigmoid:
        return call("hone_chain::Sigmoid<FAST>");
      case ChainOp::kSilu:
        return call("hone_chain::Silu<FAST>");
      case ChainOp::kGelu:
        return call("hone_chain::Gelu");
      case ChainOp::kGeluTanh:
        return call("hone_chain::GeluTanh<FAST>");
      case ChainOp::kMin:
        return call("hone_chain::Min");
      case ChainOp::kMax:
        return call("hone_chain::Max");
      case ChainOp::kClamp:
        return absl::StrCat("hone_chain::Min(hone_chain::Max(", operand(0), ", ", operand(1), "), ",
                            operand(2), ")");
      case ChainOp::kWhere:
        return absl::StrCat(operand(0), " ? ", operand(1), " : ", operand(2));
      case ChainOp::kInput:
      case ChainOp::kScalar:
      case ChainOp::kNumber:
        break;
    }
    return "";
  }

  const Chain& chain_;
};

}  // namespace

std::string ChainTypeName(absl::string_view parameter) { return absl::StrCat("chain_", parameter); }

std::string ChainHeaderName(absl::string_view parameter) {
  return absl::StrCat(ChainTypeName(parameter), ".h");
}

std::string ChainSource(const Chain& chain, absl::string_view parameter) {
  std::string source = absl::StrCat("// Generated from an operator chain.\n#pragma once\n",
                                    kFunctionsText, "\nstruct ", ChainTypeName(parameter), " {\n");
  std::vector<std::string> arguments;
  const auto declare = [&](const std::string& name, bool used) {
    absl::StrAppend(&source, "  static constexpr bool reads_", name, " = ", used ? "true" : "false",
                    ";\n");
    arguments.push_back(absl::StrCat("float ", ArgumentName(name)));
  };
  const ChainNames& names = chain.names();
  for (size_t i = 0; i < names.inputs.size(); ++i) declare(names.inputs[i], chain.ReadsInput(i));
  for (size_t i = 0; i < names.scalars.size(); ++i) declare(names.scalars[i], chain.UsesScalar(i));
  absl::StrAppend(&source, "  template <bool FAST>\n  __device__ static float Apply(",
                  absl::StrJoin(arguments, ", "), ") {\n", Writer(chain).Statements(), "  }\n};\n");
  return source;
}

}  // namespace hone
