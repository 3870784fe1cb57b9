#include "runtime/device/chain_interpreter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/device/element_math.h"

namespace hone {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kFloatMax = std::numeric_limits<float>::max();
constexpr double kUnit = 0x1p-24;   // half a unit in the last place of 1.0f
constexpr double kTiny = 0x1p-147;  // what underflow loses: units of subnormal numbers
// What quick functions lose near 0: they may flush subnormal numbers.
constexpr double kLeastNormal = 0x1p-126;
// |x * sigmoid(x)| where 1 + exp(-x) is no longer finite, or beyond the quick division's divisors.
constexpr double kVanishing = 2e-36;

// Bounds of functions, in units of kUnit relative to the result: CUDA documents at most 2 units in
// the last place (4 kUnit) for each of expf, logf, tanhf, erff, rsqrtf; the host's are closer.
constexpr double kFunction = 5;

constexpr BoundedValue kAnything{0, kInfinity};

bool IsFinite(const BoundedValue& x) { return std::isfinite(x.value) && x.decides(); }

// A computed value with the bounds of its own rounding and of what its operands were off by.
BoundedValue Rounded(double value, double inherited, double units) {
  const double error = inherited + units * kUnit * (std::fabs(value) + inherited) + kTiny;
  if (std::isnan(value) || std::isnan(error)) return kAnything;
  const double magnitude = std::fabs(value);
  if (magnitude - error > kFloatMax * (1 + kUnit)) return {std::copysign(kInfinity, value), 0};
  if (magnitude + error >= kFloatMax) return kAnything;
  return {value, error};
}

// A result of operands of which one is NaN or infinite: IEEE rules give it, unless a sign or a zero
// among the others is in doubt.
BoundedValue Special(double value, const BoundedValue& x, const BoundedValue& y) {
  for (const BoundedValue& operand : {x, y}) {
    if (std::isfinite(operand.value) && operand.error > 0 &&
        std::fabs(operand.value) <= operand.error) {
      return kAnything;
    }
  }
  return {value, 0};
}

// A sum or product of finite numbers. Compilers fuse it with the next sum, and then it does not
// overflow where it does on its own.
BoundedValue Fusible(const BoundedValue& x) { return std::isinf(x.value) ? kAnything : x; }

BoundedValue Sum(const BoundedValue& x, const BoundedValue& y) {
  const double value = x.value + y.value;
  if (!IsFinite(x) || !IsFinite(y)) return {value, 0};
  return Fusible(Rounded(value, x.error + y.error, 1));
}

BoundedValue Product(const BoundedValue& x, const BoundedValue& y) {
  const double value = x.value * y.value;
  if (!IsFinite(x) || !IsFinite(y)) return Special(value, x, y);
  const double inherited =
      std::fabs(x.value) * y.error + std::fabs(y.value) * x.error + x.error * y.error;
  return Fusible(Rounded(value, inherited, 1));
}

BoundedValue Quotient(const BoundedValue& x, const BoundedValue& y, bool fast) {
  const double value = x.value / y.value;
  // The quick division gives 0 for divisors of 2^126 and above.
  if (fast && std::isfinite(y.value) && std::fabs(y.value) + y.error >= 0x1p126) return kAnything;
  if (!IsFinite(x) || !IsFinite(y)) return Special(value, x, y);
  if (y.value == 0 && y.error == 0) return Special(value, x, y);
  const double smallest = std::fabs(y.value) - y.error;
  if (smallest <= 0) return kAnything;
  const double inherited = (x.error + std::fabs(value) * y.error) / smallest;
  // The reciprocal of a tiny divisor overflows on the way.
  if (fast && smallest < kLeastNormal) return kAnything;
  return Rounded(value, inherited + (fast ? kLeastNormal : 0), fast ? 6 : 1);
}

// A monotonic function, from its values at both ends of the operand's interval.
template <typename Function>
BoundedValue Monotonic(const BoundedValue& x, double units, const Function& function) {
  const double value = function(x.value);
  if (!std::isfinite(x.value) || !std::isfinite(value)) {
    return std::isfinite(x.value) && x.error > 0 ? kAnything : BoundedValue{value, 0};
  }
  if (x.error == 0) return Rounded(value, 0, units);
  const double below = std::fabs(value - function(x.value - x.error));
  const double above = std::fabs(function(x.value + x.error) - value);
  return Rounded(value, std::max(below, above), units);
}

// Like Monotonic, for functions that end at 0.
template <typename Function>
BoundedValue FromZero(const BoundedValue& x, bool at_zero, const Function& function) {
  const double low = x.value - x.error;
  if (x.error > 0 && (at_zero ? low < 0 : low <= 0)) {
    return x.value + x.error < 0 ? BoundedValue{kNan, 0} : kAnything;
  }
  return Monotonic(x, kFunction, function);
}

double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }
double SiluOf(double x) { return x / (1 + std::exp(-x)); }
// 1 + erf(x) is erfc(-x), which keeps its digits for negative x.
double GeluOf(double x) { return 0.5 * x * std::erfc(-x * 0.70710678118654752); }
// 0.5 * (1 + tanh(u)) as the sigmoid of 2 u, for the same reason.
double GeluTanhOf(double x) {
  return x * SigmoidOf(2 * 0.79788456080286536 * (x + 0.044715 * x * x * x));
}

// x * sigmoid(k(x)) and its kin: slopes stay below 1.2. `argument`: the exponential's, whose own
// error shows in the result relative to it.
BoundedValue Gate(const BoundedValue& x, double value, double argument, bool fast) {
  if (!std::isfinite(x.value)) return {value, 0};
  // The argument is rounded before the exponential, and a quick exponential rounds its product with
  // log2(e) too.
  const double units = 16 + (fast ? 8 : 4) * std::fabs(argument);
  const double bounded = std::min(units * kUnit, 1.0) / kUnit;
  return Rounded(value, 1.2 * x.error + kVanishing, bounded);
}

BoundedValue Smaller(const BoundedValue& x, const BoundedValue& y) {
  if (std::isnan(x.value) || std::isnan(y.value)) return {kNan, 0};
  if (x.value + x.error < y.value - y.error) return x;
  if (y.value + y.error < x.value - x.error) return y;
  if (std::isinf(x.value) || std::isinf(y.value)) return x.value < y.value ? x : y;
  return {std::min(x.value, y.value), std::max(x.error, y.error)};
}

BoundedValue Negative(const BoundedValue& x) { return {-x.value, x.error}; }

BoundedValue Larger(const BoundedValue& x, const BoundedValue& y) {
  return Negative(Smaller(Negative(x), Negative(y)));
}

bool Holds(ChainOp op, double x, double y) {
  switch (op) {
    case ChainOp::kLess:
      return x < y;
    case ChainOp::kLessEqual:
      return x <= y;
    case ChainOp::kGreater:
      return x > y;
    case ChainOp::kGreaterEqual:
      return x >= y;
    case ChainOp::kEqual:
      return x == y;
    default:
      return x != y;
  }
}

}  // namespace

bool BoundedValue::decides() const { return !std::isinf(error); }

ChainInterpreter::ChainInterpreter(const Chain* chain, std::vector<float> scalars, bool fast)
    : chain_(chain), scalars_(std::move(scalars)), fast_(fast), values_(chain->nodes().size()) {}

BoundedValue ChainInterpreter::Evaluate(const double* inputs) {
  for (size_t i = 0; i < values_.size(); ++i) {
    values_[i] = Compute(chain_->nodes()[i], inputs);
  }
  return values_.back();
}

BoundedValue ChainInterpreter::Compute(const Chain::Node& node, const double* inputs) const {
  std::array<BoundedValue, 3> operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    operands[i] = values_[static_cast<size_t>(node.operands[i])];
  }
  const auto& [x, y, z] = operands;
  if (node.op == ChainOp::kWhere) return x.value != 0 ? y : z;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (!operands[i].decides()) return kAnything;
  }
  switch (node.op) {
    case ChainOp::kInput:
      return {inputs[node.index], 0};
    case ChainOp::kScalar:
      return {scalars_[static_cast<size_t>(node.index)], 0};
    case ChainOp::kNumber:
      return {node.number, 0};
    case ChainOp::kNegate:
      return Negative(x);
    case ChainOp::kAdd:
      return Sum(x, y);
    case ChainOp::kSubtract:
      return Sum(x, Negative(y));
    case ChainOp::kMultiply:
      return Product(x, y);
    case ChainOp::kDivide:
      return Quotient(x, y, fast_);
    case ChainOp::kLess:
    case ChainOp::kLessEqual:
    case ChainOp::kGreater:
    case ChainOp::kGreaterEqual:
    case ChainOp::kEqual:
    case ChainOp::kNotEqual:
      return {Holds(node.op, x.value, y.value) ? 1.0 : 0.0, 0};
    case ChainOp::kAbs:
      return {std::fabs(x.value), x.error};
    case ChainOp::kExp: {
      const double units = kFunction + (fast_ ? 4 * std::min(std::fabs(x.value), 200.0) : 0);
      BoundedValue result = Monotonic(x, units, [](double v) { return std::exp(v); });
      if (fast_ && IsFinite(result)) result.error += kLeastNormal;
      return result;
    }
    case ChainOp::kLog:
      return FromZero(x, /*at_zero=*/false, [](double v) { return std::log(v); });
    case ChainOp::kSqrt:
      return FromZero(x, /*at_zero=*/true, [](double v) { return std::sqrt(v); });
    case ChainOp::kRsqrt:
      return FromZero(x, /*at_zero=*/false, [](double v) { return 1 / std::sqrt(v); });
    case ChainOp::kTanh:
      return Monotonic(x, kFunction, [](double v) { return std::tanh(v); });
    case ChainOp::kErf:
      return Monotonic(x, kFunction, [](double v) { return std::erf(v); });
    case ChainOp::kRelu:
      return Larger(x, {0, 0});
    case ChainOp::kSigmoid:
      return Gate(x, SigmoidOf(x.value), x.value, fast_);
    case ChainOp::kSilu:
      return Gate(x, SiluOf(x.value), x.value, fast_);
    case ChainOp::kGelu: {
      if (!std::isfinite(x.value)) return {GeluOf(x.value), 0};
      // 1 + erf cancels for negative x, as in PyTorch.
      const double cancelled = 4 * kUnit * std::fabs(x.value);
      return Rounded(GeluOf(x.value), 1.2 * x.error + cancelled, 2 * kFunction);
    }
    case ChainOp::kGeluTanh: {
      const double v = std::clamp(x.value, -1e6, 1e6);
      return Gate(x, GeluTanhOf(x.value), 1.6 * (v + 0.044715 * v * v * v), fast_);
    }
    case ChainOp::kMin:
      return Smaller(x, y);
    case ChainOp::kMax:
      return Larger(x, y);
    case ChainOp::kClamp:
      return Smaller(Larger(x, y), z);
    case ChainOp::kWhere:
      break;
  }
  return kAnything;
}

bool RightRange::Contains(double result) const {
  if (anything) return true;
  if (nan || std::isnan(result)) return nan && std::isnan(result);
  return low <= result && result <= high;
}

double RightRange::Example() const {
  if (nan || anything) return kNan;
  return std::isfinite(low) && std::isfinite(high) ? low + (high - low) / 2 : low;
}

RightRange RightResults(DataType type, const BoundedValue& expected) {
  if (!expected.decides()) return {.anything = true};
  if (std::isnan(expected.value)) return {.nan = true};
  const int code = static_cast<int>(type);
  const auto rounded = [&](double value) {
    return element::Decode(code, element::EncodeFloat(code, static_cast<float>(value)));
  };
  return {.low = rounded(expected.value - expected.error),
          .high = rounded(expected.value + expected.error)};
}

}  // namespace hone
