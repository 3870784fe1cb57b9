#include "runtime/launch/launch_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/launch/launch_plan_data.h"
#include "runtime/launch/scalar_encoding.h"

namespace hone {
namespace {

using Data = LaunchPlan::Data;
using SlotStorage = std::array<int64_t, kPlanSlotsMax>;

// The caller's sizes themselves unless expressions mention per-launch scalars.
PlanSlots SlotsOf(const Data& plan, const PlanInputs& inputs, SlotStorage& storage) {
  if (plan.integral_scalars.empty()) return {.values = inputs.sizes};
  PlanSlots slots{.values = storage.data()};
  size_t slot = 0;
  for (; slot < plan.names.sizes.size(); ++slot) storage[slot] = inputs.sizes[slot];
  for (const size_t position : plan.integral_scalars) {
    const double value = inputs.scalars[position];
    // As LaunchBindings: anything else is refused where the scalar is packed.
    if (std::trunc(value) == value && std::fabs(value) < 0x1p63) {
      storage[slot] = static_cast<int64_t>(value);
    } else {
      storage[slot] = 0;
      slots.unbound |= uint64_t{1} << slot;
    }
    ++slot;
  }
  return slots;
}

// The bytes between the first and the last element, as EvaluateExtent and SpanBytes have it.
bool SpanOf(const PlanExtent& extent, const PlanSlots& slots, int64_t& bytes) {
  if (extent.span_bytes) {
    bytes = *extent.span_bytes;
    return true;
  }
  if (extent.fails) return false;
  int64_t elements = 1;  // from the first to the last, both counted
  bool overflow = false;
  bool empty = false;
  for (size_t i = 0; i < extent.shape.size(); ++i) {
    int64_t size = 0, stride = 0, reach = 0;
    if (!extent.shape[i].Evaluate(slots, size) || size < 0) return false;
    if (!extent.strides[i].Evaluate(slots, stride) || stride < 0) return false;
    empty |= size == 0;
    overflow |= __builtin_mul_overflow(size - 1, stride, &reach);
    overflow |= __builtin_add_overflow(elements, reach, &elements);
  }
  overflow |= __builtin_mul_overflow(elements, extent.element_bytes, &bytes);
  if (empty) bytes = 0;
  return empty || !overflow;
}

// REQUIRES: the extent's span is known and not 0.
bool StridesFit(const PlanExtent& extent, const PlanSlots& slots, const PlanBuffer& given) {
  if (given.strides == nullptr || given.rank <= 0) return true;
  if (static_cast<size_t>(given.rank) != extent.strides.size()) return false;
  for (size_t i = 0; i < extent.strides.size(); ++i) {
    int64_t size = 0, stride = 0;
    if (!extent.shape[i].Evaluate(slots, size) || !extent.strides[i].Evaluate(slots, stride)) {
      return false;
    }
    // With one element along a dimension its stride is never used.
    if (size > 1 && given.strides[i] != stride) return false;
  }
  return true;
}

bool ShapeFits(const PlanExtent& extent, const PlanSlots& slots, const PlanBuffer& given) {
  if (given.shape == nullptr || given.rank <= 0) return true;
  if (extent.fails || static_cast<size_t>(given.rank) != extent.shape.size()) return false;
  for (size_t i = 0; i < extent.shape.size(); ++i) {
    int64_t size = 0, stride = 0;
    if (!extent.shape[i].Evaluate(slots, size) || size != given.shape[i] || size < 0) return false;
    if (!extent.strides[i].Evaluate(slots, stride) || stride < 0) return false;
  }
  return true;
}

bool IsAligned(const PlannedBuffer& buffer, uint64_t address) {
  if (buffer.alignment_mask != 0) return (address & buffer.alignment_mask) == 0;
  return buffer.alignment_bytes <= 1 || address % buffer.alignment_bytes == 0;
}

// Resolves one launch.
class PlanResolver {
 public:
  PlanResolver(const Data& plan, const PlanInputs& inputs, const PlanSlots& slots,
               PlannedLaunch& launch)
      : plan_(plan), inputs_(inputs), slots_(slots), launch_(launch) {}

  bool Run() {
    launch_.step_count = 0;
    launch_.tensor_maps_used = 0;
    for (const size_t position : plan_.zeroed_scratch) {
      if (!ZeroScratch(position)) return false;
    }
    for (const PlanStep& step : plan_.steps) {
      if (step.when) {
        int64_t when = 0;
        if (!step.when->Evaluate(slots_, when)) return false;
        if (when == 0) continue;
      }
      if (step.fails) return false;
      if (!(step.fixed.is_kernel ? ResolveKernel(step) : ResolveMemset(step))) return false;
    }
    return true;
  }

 private:
  PlannedStep& NextStep() { return launch_.steps[launch_.step_count]; }

  bool ScratchBytes(size_t position, int64_t& bytes) const {
    return plan_.scratch_bytes[position].Evaluate(slots_, bytes) && bytes >= 0;
  }

  bool ZeroScratch(size_t position) {
    int64_t bytes = 0;
    if (!ScratchBytes(position, bytes)) return false;
    if (bytes == 0) return true;
    if (inputs_.scratch[position] == 0) return false;
    PlannedStep& step = NextStep();
    step.recipe_step = -1;
    step.is_kernel = false;
    step.memset_address = inputs_.scratch[position];
    step.memset_bytes = static_cast<uint64_t>(bytes);
    step.memset_value = 0;
    ++launch_.step_count;
    return true;
  }

  bool ResolveMemset(const PlanStep& step) {
    const PlanArgument& argument = plan_.arguments[step.memset_argument];
    const bool is_buffer = argument.kind == PlanArgument::Kind::kBuffer;
    int64_t whole = 0;
    if (is_buffer ? !SpanOf(ExtentOf(argument.position), slots_, whole)
                  : !ScratchBytes(argument.position, whole)) {
      return false;
    }
    int64_t bytes = whole;
    if (step.memset_bytes && !step.memset_bytes->Evaluate(slots_, bytes)) return false;
    if (bytes < 0 || bytes > whole) return false;
    if (bytes == 0) return true;
    uint64_t address = 0;
    if (!Address(argument, address)) return false;
    PlannedStep& resolved = NextStep();
    resolved = step.fixed;
    resolved.memset_address = address;
    resolved.memset_bytes = static_cast<uint64_t>(bytes);
    ++launch_.step_count;
    return true;
  }

  bool ResolveKernel(const PlanStep& step) {
    PlannedStep& resolved = NextStep();
    resolved = step.fixed;
    if (!ResolveShape(step, resolved)) return false;
    if (resolved.grid[0] == 0 || resolved.grid[1] == 0 || resolved.grid[2] == 0) return true;
    for (const uint8_t index : step.arguments) {
      if (!Pack(index)) return false;
    }
    resolved.programmatic_dependent_launch =
        step.dependent && launch_.step_count > 0 && launch_.steps[launch_.step_count - 1].is_kernel;
    ++launch_.step_count;
    return true;
  }

  bool ResolveShape(const PlanStep& step, PlannedStep& resolved) const {
    for (const PlanShapeField& field : step.fields) {
      int64_t value = 0;
      if (!field.value.Evaluate(slots_, value) || value < field.min || value > field.max) {
        return false;
      }
      const auto number = static_cast<uint32_t>(value);
      if (field.index < PlanShapeField::kBlock) {
        resolved.grid[field.index] = number;
      } else if (field.index < PlanShapeField::kCluster) {
        resolved.block[field.index - PlanShapeField::kBlock] = number;
      } else if (field.index < PlanShapeField::kSharedBytes) {
        resolved.cluster[field.index - PlanShapeField::kCluster] = number;
      } else {
        resolved.dynamic_shared_bytes = number;
      }
    }
    return PlanShapeIsLaunchable(step, resolved);
  }

  // Of a buffer or scratch. 0 only for optional buffers and for what has no bytes.
  bool Address(const PlanArgument& argument, uint64_t& address) const {
    int64_t bytes = 0;
    if (argument.kind == PlanArgument::Kind::kBuffer) {
      address = inputs_.buffers[argument.position].address;
      if (address != 0 || plan_.buffers[argument.position].optional) return true;
      return SpanOf(ExtentOf(argument.position), slots_, bytes) && bytes == 0;
    }
    address = inputs_.scratch[argument.position];
    return address != 0 || (ScratchBytes(argument.position, bytes) && bytes == 0);
  }

  const PlanExtent& ExtentOf(size_t buffer) const {
    return plan_.extents[plan_.buffers[buffer].extent];
  }

  bool Pack(size_t index) {
    const PlanArgument& argument = plan_.arguments[index];
    uint64_t& word = launch_.words[index];
    switch (argument.kind) {
      case PlanArgument::Kind::kBuffer: {
        const PlanBuffer& given = inputs_.buffers[argument.position];
        return ShapeFits(ExtentOf(argument.position), slots_, given) && Address(argument, word);
      }
      case PlanArgument::Kind::kScratch:
        return Address(argument, word);
      case PlanArgument::Kind::kConstant:
        word = argument.bits;
        return true;
      case PlanArgument::Kind::kComputed: {
        int64_t value = 0;
        return argument.value.Evaluate(slots_, value) &&
               Store(TryEncodeInteger(argument.type, value), word);
      }
      case PlanArgument::Kind::kGiven:
        return Store(TryEncodeScalar(argument.type, inputs_.scalars[argument.position]), word);
      case PlanArgument::Kind::kTensorMap:
        return PackTensorMap(argument.position);
    }
    return false;
  }

  static bool Store(const std::optional<uint64_t>& bits, uint64_t& word) {
    if (!bits) return false;
    word = *bits;
    return true;
  }

  bool PackTensorMap(size_t position) {
    const uint32_t bit = uint32_t{1} << position;
    if ((launch_.tensor_maps_used & bit) != 0) return true;
    const PlanTensorMap& map = plan_.tensor_maps[position];
    PlannedTensorMap& resolved = launch_.tensor_maps[position];
    resolved.recipe = map.recipe;
    resolved.address = inputs_.buffers[map.buffer].address;
    resolved.rank = static_cast<uint32_t>(map.dims.size());
    if (map.element_strides.empty()) resolved.element_strides.fill(1);
    if (resolved.address == 0 || !Positive(map.dims, kTensorMapDimMax, resolved.dims) ||
        !Positive(map.strides_bytes, kTensorMapStrideBytesMax, resolved.strides_bytes) ||
        !Positive(map.box, kTensorMapBoxMax, resolved.box) ||
        !Positive(map.element_strides, kTensorMapElementStrideMax, resolved.element_strides)) {
      return false;
    }
    launch_.tensor_maps_used |= bit;
    return true;
  }

  template <typename T>
  bool Positive(const std::vector<PlanValue>& list, int64_t max,
                std::array<T, kTensorMapRankMax>& values) const {
    for (size_t i = 0; i < list.size(); ++i) {
      int64_t value = 0;
      if (!list[i].Evaluate(slots_, value) || value < 1 || value > max) return false;
      values[i] = static_cast<T>(value);
    }
    return true;
  }

  const Data& plan_;
  const PlanInputs& inputs_;
  const PlanSlots slots_;
  PlannedLaunch& launch_;
};

}  // namespace

bool PlanShapeIsLaunchable(const PlanStep& step, const PlannedStep& resolved) {
  if (step.checks_block &&
      int64_t{resolved.block[0]} * resolved.block[1] * resolved.block[2] > kThreadsPerBlockMax) {
    return false;
  }
  if (!step.checks_cluster) return true;
  int64_t blocks = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    if (resolved.grid[axis] % resolved.cluster[axis] != 0) return false;
    blocks *= resolved.cluster[axis];
  }
  return blocks <= kClusterBlocksMax;
}

bool PlanValue::EvaluateRest(const PlanSlots& slots, int64_t& result) const {
  if (kind_ == Kind::kCeilDiv) {
    const int64_t value = slots.values[value_];
    result = value / divisor_ + (value % divisor_ > 0 ? 1 : 0);
    return (slots.unbound >> value_ & 1) == 0;
  }
  if (kind_ != Kind::kExpression) return false;
  const std::optional<int64_t> value = expression_->Evaluate(slots.values, slots.unbound);
  if (!value) return false;
  result = *value;
  return true;
}

LaunchPlan::LaunchPlan(std::unique_ptr<const Data> data) : data_(std::move(data)) {}
LaunchPlan::LaunchPlan(LaunchPlan&&) noexcept = default;
LaunchPlan& LaunchPlan::operator=(LaunchPlan&&) noexcept = default;
LaunchPlan::~LaunchPlan() = default;

const LaunchRecipe& LaunchPlan::recipe() const { return *data_->recipe; }
const LaunchNames& LaunchPlan::names() const { return data_->names; }

const std::vector<PlanParameter>& LaunchPlan::Parameters(int recipe_step) const {
  return data_->steps[static_cast<size_t>(recipe_step)].parameters;
}

bool LaunchPlan::Accepts(const PlanInputs& inputs) const {
  const Data& plan = *data_;
  if (plan.accepts_nothing) return false;
  SlotStorage storage;
  const PlanSlots slots = SlotsOf(plan, inputs, storage);
  for (const PlanValue& guard : plan.guards) {
    int64_t holds = 0;
    if (!guard.Evaluate(slots, holds) || holds == 0) return false;
  }
  // Nothing lies between the begin and end of what is null or empty.
  std::array<uint64_t, kPlanArgumentsMax> begin, end;
  std::array<int64_t, kPlanArgumentsMax> spans;  // by extent; buffers of one shape share it
  uint64_t known_spans = 0;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    const PlanBuffer& given = inputs.buffers[i];
    begin[i] = end[i] = given.address;
    if (given.address == 0) continue;
    const PlanExtent& extent = plan.extents[buffer.extent];
    const uint64_t bit = uint64_t{1} << buffer.extent;
    if ((known_spans & bit) == 0) {
      if (!SpanOf(extent, slots, spans[buffer.extent])) return false;
      known_spans |= bit;
    }
    const int64_t span = spans[buffer.extent];
    end[i] += static_cast<uint64_t>(span);
    if (!IsAligned(buffer, given.address)) return false;
    if (span != 0 && !StridesFit(extent, slots, given)) return false;
  }
  return std::all_of(plan.pairs.begin(), plan.pairs.end(), [&](const PlanPair& pair) {
    const bool overlap = begin[pair.a] < end[pair.b] && begin[pair.b] < end[pair.a];
    return !overlap || (pair.may_alias && begin[pair.a] == begin[pair.b]);
  });
}

bool LaunchPlan::Resolve(const PlanInputs& inputs, PlannedLaunch& launch) const {
  SlotStorage storage;
  return PlanResolver(*data_, inputs, SlotsOf(*data_, inputs, storage), launch).Run();
}

}  // namespace hone
