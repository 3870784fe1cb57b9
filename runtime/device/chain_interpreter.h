// What a chain's results may be: an interpreter in double precision that also follows how far off
// single precision can be. It starts from the chain's tree and shares no code with the source
// generator.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/generate/chain.h"
#include "runtime/launch/data_type.h"

namespace hone {

// A float computed for `value` lies within `error` of it. An infinite error: any float may come
// out, NaN too, because rounding decides (the sign of a difference that cancels, an overflow on the
// way). NaN and infinities otherwise have error 0 and must come out as they are.
struct BoundedValue {
  double value = 0;
  double error = 0;

  bool decides() const;
};

// Evaluates one chain at many elements. Not thread-safe.
class ChainInterpreter {
 public:
  // `fast`: the results have at most 16 bits, so that kernels may use quick exponentials and
  // divisions. The chain must outlive this object. Scalars in the order of the chain's names.
  ChainInterpreter(const Chain* chain, std::vector<float> scalars, bool fast);

  // `inputs` in the order of the chain's names; those it does not read are ignored.
  BoundedValue Evaluate(const double* inputs);

 private:
  BoundedValue Compute(const Chain::Node& node, const double* inputs) const;

  const Chain* const chain_;
  const std::vector<float> scalars_;
  const bool fast_;
  std::vector<BoundedValue> values_;  // by node
};

// The results of `type` that are right for `expected`: those that a float within the bound rounds
// to.
struct RightRange {
  double low = 0;
  double high = 0;
  bool nan = false;       // only NaN is right
  bool anything = false;  // or nothing is wrong

  bool Contains(double result) const;
  // One of them, for messages.
  double Example() const;
};
// fp8 saturates, as the kernels' conversions do. REQUIRES: `type` is floating-point, not F64.
RightRange RightResults(DataType type, const BoundedValue& expected);

}  // namespace hone
