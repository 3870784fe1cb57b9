// What a LaunchPlan holds; made by launch_plan_builder.cc, read by launch_plan.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/launch/launch_plan.h"
#include "runtime/launch/slot_expression.h"

namespace hone {

// The slots of one launch. Bit i of `unbound`: slot i has no value in this launch.
struct PlanSlots {
  const int64_t* values = nullptr;
  uint64_t unbound = 0;
};

// An expression of a recipe. Constants and plain names, which most are, cost a load.
class PlanValue {
 public:
  static PlanValue Constant(int64_t value) {
    PlanValue result;
    result.kind_ = Kind::kConstant;
    result.value_ = value;
    return result;
  }
  // Evaluates to an error in every launch.
  static PlanValue Failure() { return PlanValue(); }
  static PlanValue Slot(size_t slot) {
    PlanValue result;
    result.kind_ = Kind::kSlot;
    result.value_ = static_cast<int64_t>(slot);
    return result;
  }
  // ceil_div(slot, divisor), the usual grid. REQUIRES: divisor > 0.
  static PlanValue CeilDiv(size_t slot, int64_t divisor) {
    PlanValue result;
    result.kind_ = Kind::kCeilDiv;
    result.value_ = static_cast<int64_t>(slot);
    result.divisor_ = divisor;
    return result;
  }
  static PlanValue Of(SlotExpression expression) {
    PlanValue result;
    result.kind_ = Kind::kExpression;
    result.expression_ = std::make_unique<const SlotExpression>(std::move(expression));
    return result;
  }

  bool is_constant() const { return kind_ == Kind::kConstant; }
  bool always_fails() const { return kind_ == Kind::kFailure; }
  int64_t constant() const { return value_; }

  // False where Expression::Evaluate would be an error.
  bool Evaluate(const PlanSlots& slots, int64_t& result) const {
    if (kind_ == Kind::kConstant) {
      result = value_;
      return true;
    }
    if (kind_ == Kind::kSlot) {
      result = slots.values[value_];
      return (slots.unbound >> value_ & 1) == 0;
    }
    return EvaluateRest(slots, result);
  }

 private:
  enum class Kind : uint8_t { kFailure, kConstant, kSlot, kCeilDiv, kExpression };

  PlanValue() = default;
  bool EvaluateRest(const PlanSlots& slots, int64_t& result) const;

  Kind kind_ = Kind::kFailure;
  int64_t value_ = 0;  // the constant or the slot
  int64_t divisor_ = 1;
  std::unique_ptr<const SlotExpression> expression_;
};

// Shape and strides of one or more buffers.
struct PlanExtent {
  std::vector<PlanValue> shape;
  std::vector<PlanValue> strides;
  int64_t element_bytes = 1;
  bool fails = false;                   // in every launch
  std::optional<int64_t> span_bytes{};  // when it is the same in every launch
};

struct PlannedBuffer {
  size_t extent = 0;  // index into Data::extents
  uint64_t alignment_bytes = 1;
  uint64_t alignment_mask = 0;  // of a power of two; 0: see alignment_bytes
  bool optional = false;
};

// Two buffers of which one is written.
struct PlanPair {
  uint8_t a = 0;
  uint8_t b = 0;
  bool may_alias = false;
};

struct PlanTensorMap {
  const RecipeTensorMap* recipe = nullptr;
  size_t buffer = 0;  // position
  std::vector<PlanValue> dims;
  std::vector<PlanValue> strides_bytes;
  std::vector<PlanValue> box;
  std::vector<PlanValue> element_strides;  // empty: 1 each
};

// How an argument becomes a word or a tensor map.
struct PlanArgument {
  enum class Kind : uint8_t { kBuffer, kConstant, kComputed, kGiven, kScratch, kTensorMap };
  Kind kind = Kind::kConstant;
  size_t position = 0;  // of the buffer, given scalar, scratch or tensor map
  DataType type = DataType::kI64;
  uint64_t bits = 0;                       // of kConstant
  PlanValue value = PlanValue::Failure();  // of kComputed
};

// A number of a launch's shape that is not the same in every launch.
struct PlanShapeField {
  enum Index : uint8_t { kGrid = 0, kBlock = 3, kCluster = 6, kSharedBytes = 9 };
  uint8_t index = 0;  // kGrid + axis, ...
  int64_t min = 0;
  int64_t max = 0;
  PlanValue value = PlanValue::Failure();
};

struct PlanStep {
  std::optional<PlanValue> when{};
  bool fails = false;   // when it is reached
  PlannedStep fixed{};  // with everything that is the same in every launch
  std::vector<PlanShapeField> fields{};
  bool checks_block = false;    // some extent of a block varies
  bool checks_cluster = false;  // clusters are not 1, or vary
  std::vector<uint8_t> arguments{};
  std::vector<PlanParameter> parameters{};
  bool dependent = false;

  size_t memset_argument = 0;
  std::optional<PlanValue> memset_bytes{};
};

// Whether a block's threads and the clusters of a shape whose numbers are each in range are so
// together.
bool PlanShapeIsLaunchable(const PlanStep& step, const PlannedStep& resolved);

struct LaunchPlan::Data {
  const LaunchRecipe* recipe = nullptr;
  LaunchNames names;
  // Slots are the sizes, then `integral_scalars` (positions); without these the caller's sizes are
  // the slots.
  std::vector<size_t> integral_scalars;

  bool accepts_nothing = false;  // a guard that never holds
  std::vector<PlanValue> guards;
  std::vector<PlanExtent> extents;
  std::vector<PlannedBuffer> buffers;  // by position
  std::vector<PlanPair> pairs;
  std::vector<PlanValue> scratch_bytes;  // by position
  std::vector<size_t> zeroed_scratch;    // positions, zeroed at every launch
  std::vector<PlanTensorMap> tensor_maps;
  std::vector<PlanArgument> arguments;  // by the recipe's index
  std::vector<PlanStep> steps;          // by the recipe's index
};

}  // namespace hone
