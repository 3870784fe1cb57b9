// Makes plans of recipes, and names of positions.
#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/launch_plan.h"
#include "runtime/launch/launch_plan_data.h"
#include "runtime/launch/scalar_encoding.h"

namespace hone {
namespace {

using Op = Expression::Op;

absl::Status NoPlan(absl::string_view why) {
  return absl::UnimplementedError(absl::StrCat("no plan for this recipe: ", why));
}

class PlanBuilder {
 public:
  PlanBuilder(const LaunchRecipe& recipe, const SizeBindings& device_facts) : recipe_(recipe) {
    for (const auto& [name, value] : device_facts) facts_.emplace(name, value);
  }

  absl::StatusOr<std::unique_ptr<const LaunchPlan::Data>> Build() && {
    plan_->recipe = &recipe_;
    plan_->names = NamesOf(recipe_);
    HONE_RETURN_IF_ERROR(CheckBounds());
    NameSlots();
    HONE_RETURN_IF_ERROR(AddGuards());
    for (size_t i = 0; i < recipe_.arguments.size(); ++i) {
      HONE_RETURN_IF_ERROR(AddArgument(recipe_.arguments[i]));
    }
    AddPairs();
    for (size_t i = 0; i < recipe_.steps.size(); ++i) {
      HONE_RETURN_IF_ERROR(AddStep(static_cast<int>(i)));
    }
    if (!uses_scalars_) plan_->integral_scalars.clear();
    return std::move(plan_);
  }

 private:
  absl::Status CheckBounds() const {
    const auto bound = [](absl::string_view what, size_t count, size_t max) {
      if (count <= max) return absl::OkStatus();
      return NoPlan(absl::StrCat(count, " ", what, ", a plan holds ", max));
    };
    size_t steps = recipe_.steps.size(), maps = 0;
    std::set<std::string> names;
    for (const RecipeArgument& argument : recipe_.arguments) {
      if (!names.insert(argument.name).second) {
        return NoPlan(absl::StrCat("two arguments are named '", argument.name, "'"));
      }
      const auto* scratch = std::get_if<RecipeScratch>(&argument.kind);
      steps += scratch != nullptr && scratch->zeroed == ScratchZeroed::kEveryLaunch ? 1 : 0;
      maps += std::holds_alternative<RecipeTensorMap>(argument.kind) ? 1 : 0;
    }
    HONE_RETURN_IF_ERROR(bound("arguments", recipe_.arguments.size(), kPlanArgumentsMax));
    HONE_RETURN_IF_ERROR(bound("steps", steps, kPlanStepsMax));
    HONE_RETURN_IF_ERROR(bound("tensor maps", maps, kPlanTensorMapsMax));
    HONE_RETURN_IF_ERROR(bound("sizes and scalars",
                               plan_->names.sizes.size() + plan_->names.scalars.size(),
                               kPlanSlotsMax));
    const std::set<std::string> sizes(recipe_.dynamic_sizes.begin(), recipe_.dynamic_sizes.end());
    if (sizes.size() != recipe_.dynamic_sizes.size()) return NoPlan("two sizes have one name");
    return absl::OkStatus();
  }

  void NameSlots() {
    slots_ = plan_->names.sizes;
    size_t position = 0;
    for (const RecipeArgument& argument : recipe_.arguments) {
      const auto* scalar = std::get_if<RecipeScalar>(&argument.kind);
      if (scalar == nullptr || scalar->value) continue;
      // A size of the same name comes first, as in LaunchBindings.
      if (!IsFloatingPoint(scalar->type)) {
        slots_.push_back(argument.name);
        plan_->integral_scalars.push_back(position);
      }
      ++position;
    }
  }

  absl::StatusOr<PlanValue> Compile(const Expression& expression) {
    const absl::StatusOr<Expression> bound = expression.Bind(facts_);
    if (!bound.ok()) return NoPlan(bound.status().message());
    if (bound->is_constant()) return PlanValue::Constant(bound->constant());
    for (const std::string& name : bound->Variables()) {
      const size_t slot = SlotOf(name);
      uses_scalars_ |= slot >= plan_->names.sizes.size() && slot < slots_.size();
    }
    if (bound->op() == Op::kVar) {
      const size_t slot = SlotOf(bound->variable());
      return slot < slots_.size() ? PlanValue::Slot(slot) : PlanValue::Failure();
    }
    if (bound->op() == Op::kCeilDiv) {
      const Expression& a = bound->operands()[0];
      const Expression& b = bound->operands()[1];
      const size_t slot = a.op() == Op::kVar ? SlotOf(a.variable()) : slots_.size();
      if (slot < slots_.size() && b.is_constant() && b.constant() > 0) {
        return PlanValue::CeilDiv(slot, b.constant());
      }
    }
    std::optional<SlotExpression> by_slot = SlotExpression::Create(*bound, slots_);
    if (!by_slot) {
      return NoPlan(absl::StrCat("'", bound->ToString(), "' mentions a name without a value"));
    }
    return PlanValue::Of(*std::move(by_slot));
  }

  size_t SlotOf(const std::string& name) const {
    return static_cast<size_t>(std::find(slots_.begin(), slots_.end(), name) - slots_.begin());
  }

  absl::StatusOr<std::vector<PlanValue>> CompileList(const std::vector<Expression>& list) {
    std::vector<PlanValue> values;
    for (const Expression& e : list) {
      HONE_ASSIGN_OR_RETURN(PlanValue value, Compile(e));
      values.push_back(std::move(value));
    }
    return values;
  }

  absl::Status AddGuards() {
    for (const Expression& guard : recipe_.guards) {
      HONE_ASSIGN_OR_RETURN(PlanValue value, Compile(guard));
      if (value.always_fails() || (value.is_constant() && value.constant() == 0)) {
        plan_->accepts_nothing = true;
      } else if (!value.is_constant()) {
        plan_->guards.push_back(std::move(value));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddArgument(const RecipeArgument& argument) {
    PlanArgument added;
    if (const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind)) {
      added.kind = PlanArgument::Kind::kBuffer;
      added.position = plan_->buffers.size();
      HONE_RETURN_IF_ERROR(AddBuffer(*buffer));
    } else if (const auto* scalar = std::get_if<RecipeScalar>(&argument.kind)) {
      HONE_RETURN_IF_ERROR(AddScalar(*scalar, added));
    } else if (const auto* scratch = std::get_if<RecipeScratch>(&argument.kind)) {
      added.kind = PlanArgument::Kind::kScratch;
      added.position = plan_->scratch_bytes.size();
      if (scratch->zeroed == ScratchZeroed::kEveryLaunch) {
        plan_->zeroed_scratch.push_back(added.position);
      }
      HONE_ASSIGN_OR_RETURN(PlanValue bytes, Compile(scratch->bytes));
      plan_->scratch_bytes.push_back(std::move(bytes));
    } else if (const auto* map = std::get_if<RecipeTensorMap>(&argument.kind)) {
      added.kind = PlanArgument::Kind::kTensorMap;
      added.position = plan_->tensor_maps.size();
      HONE_RETURN_IF_ERROR(AddTensorMap(*map));
    }
    plan_->arguments.push_back(std::move(added));
    return absl::OkStatus();
  }

  absl::Status AddBuffer(const RecipeBuffer& buffer) {
    PlannedBuffer added;
    HONE_ASSIGN_OR_RETURN(added.extent, AddExtent(buffer));
    added.alignment_bytes = static_cast<uint64_t>(buffer.alignment_bytes);
    if (std::has_single_bit(added.alignment_bytes)) {
      added.alignment_mask = added.alignment_bytes - 1;
    }
    added.optional = buffer.optional;
    plan_->buffers.push_back(added);
    return absl::OkStatus();
  }

  // Index into Data::extents, of an equal one where there is one.
  absl::StatusOr<size_t> AddExtent(const RecipeBuffer& buffer) {
    std::string key = absl::StrCat(SizeBytes(buffer.dtype), ";", buffer.shape.size());
    for (const Expression& e : buffer.shape) absl::StrAppend(&key, ";", e.ToString());
    for (const Expression& e : buffer.strides) absl::StrAppend(&key, ";", e.ToString());
    const auto [known, is_new] = extents_.emplace(key, plan_->extents.size());
    if (!is_new) return known->second;
    PlanExtent extent;
    extent.element_bytes = SizeBytes(buffer.dtype);
    HONE_ASSIGN_OR_RETURN(extent.shape, CompileList(buffer.shape));
    HONE_ASSIGN_OR_RETURN(extent.strides, CompileList(buffer.strides));
    extent.fails = extent.shape.size() != extent.strides.size();
    bool constant = !extent.fails;
    RecipeBuffer fixed{.dtype = buffer.dtype};
    for (const auto& [from, to] :
         {std::pair{&extent.shape, &fixed.shape}, std::pair{&extent.strides, &fixed.strides}}) {
      for (const PlanValue& value : *from) {
        extent.fails |= value.always_fails() || (value.is_constant() && value.constant() < 0);
        constant &= value.is_constant();
        if (constant) to->push_back(Expression::Constant(value.constant()));
      }
    }
    if (constant && !extent.fails) {
      const absl::StatusOr<int64_t> span = BufferSpanBytes(fixed, {});
      if (span.ok()) extent.span_bytes = *span;
    }
    plan_->extents.push_back(std::move(extent));
    return known->second;
  }

  absl::Status AddScalar(const RecipeScalar& scalar, PlanArgument& added) {
    added.type = scalar.type;
    if (!scalar.value) {
      added.kind = PlanArgument::Kind::kGiven;
      added.position = given_scalars_++;
      return absl::OkStatus();
    }
    added.kind = PlanArgument::Kind::kComputed;
    HONE_ASSIGN_OR_RETURN(added.value, Compile(*scalar.value));
    if (!added.value.is_constant()) return absl::OkStatus();
    // One that does not fit stays computed, and fails where it is packed.
    if (const auto bits = TryEncodeInteger(scalar.type, added.value.constant())) {
      added.kind = PlanArgument::Kind::kConstant;
      added.bits = *bits;
    }
    return absl::OkStatus();
  }

  absl::Status AddTensorMap(const RecipeTensorMap& map) {
    PlanTensorMap added;
    added.recipe = &map;
    const std::vector<std::string>& names = plan_->names.buffers;
    const auto buffer = absl::c_find(names, map.buffer);
    if (buffer == names.end()) return NoPlan(absl::StrCat("it has no buffer '", map.buffer, "'"));
    added.buffer = static_cast<size_t>(buffer - names.begin());
    const size_t rank = map.dims.size();
    if (rank < 1 || rank > kTensorMapRankMax || map.strides_bytes.size() != rank - 1 ||
        map.box.size() != rank ||
        (!map.element_strides.empty() && map.element_strides.size() != rank)) {
      added.dims.push_back(PlanValue::Failure());
    } else {
      HONE_ASSIGN_OR_RETURN(added.dims, CompileList(map.dims));
      HONE_ASSIGN_OR_RETURN(added.strides_bytes, CompileList(map.strides_bytes));
      HONE_ASSIGN_OR_RETURN(added.box, CompileList(map.box));
      HONE_ASSIGN_OR_RETURN(added.element_strides, CompileList(map.element_strides));
    }
    plan_->tensor_maps.push_back(std::move(added));
    return absl::OkStatus();
  }

  void AddPairs() {
    std::vector<std::pair<const std::string*, const RecipeBuffer*>> buffers;
    for (const RecipeArgument& argument : recipe_.arguments) {
      const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind);
      if (buffer != nullptr) buffers.emplace_back(&argument.name, buffer);
    }
    for (size_t b = 0; b < buffers.size(); ++b) {
      for (size_t a = 0; a < b; ++a) {
        const RecipeBuffer& first = *buffers[a].second;
        const RecipeBuffer& second = *buffers[b].second;
        if (first.access == Access::kRead && second.access == Access::kRead) continue;
        plan_->pairs.push_back(
            {.a = static_cast<uint8_t>(a),
             .b = static_cast<uint8_t>(b),
             .may_alias = absl::c_linear_search(first.may_alias, *buffers[b].first) ||
                          absl::c_linear_search(second.may_alias, *buffers[a].first)});
      }
    }
  }

  absl::Status AddStep(int index) {
    const RecipeStep& step = recipe_.steps[static_cast<size_t>(index)];
    PlanStep added;
    added.fixed.recipe_step = index;
    added.fixed.is_kernel = !step.symbol.empty();
    if (step.when) {
      HONE_ASSIGN_OR_RETURN(added.when, Compile(*step.when));
    }
    HONE_RETURN_IF_ERROR(added.fixed.is_kernel ? AddKernel(step, added) : AddMemset(step, added));
    plan_->steps.push_back(std::move(added));
    return absl::OkStatus();
  }

  absl::Status AddMemset(const RecipeStep& step, PlanStep& added) {
    added.fixed.memset_value = step.memset_value;
    added.memset_argument = static_cast<size_t>(step.memset_argument);
    if (step.memset_argument < 0 || added.memset_argument >= recipe_.arguments.size()) {
      added.fails = true;
      return absl::OkStatus();
    }
    const auto kind = plan_->arguments[added.memset_argument].kind;
    added.fails = kind != PlanArgument::Kind::kBuffer && kind != PlanArgument::Kind::kScratch;
    if (step.memset_bytes) {
      HONE_ASSIGN_OR_RETURN(added.memset_bytes, Compile(*step.memset_bytes));
    }
    return absl::OkStatus();
  }

  absl::Status AddKernel(const RecipeStep& step, PlanStep& added) {
    const LaunchShape& shape = step.launch;
    for (uint8_t axis = 0; axis < 3; ++axis) {
      HONE_RETURN_IF_ERROR(AddField(shape.grid[axis], PlanShapeField::kGrid + axis, 0,
                                    kGridMax[axis], &added.fixed.grid[axis], added));
      HONE_RETURN_IF_ERROR(AddField(shape.block[axis], PlanShapeField::kBlock + axis, 1,
                                    kBlockMax[axis], &added.fixed.block[axis], added));
      HONE_RETURN_IF_ERROR(AddField(shape.cluster[axis], PlanShapeField::kCluster + axis, 1,
                                    kClusterBlocksMax, &added.fixed.cluster[axis], added));
    }
    HONE_RETURN_IF_ERROR(AddField(shape.dynamic_shared_bytes, PlanShapeField::kSharedBytes, 0,
                                  kSharedBytesMax, &added.fixed.dynamic_shared_bytes, added));
    const std::array<uint32_t, 3> ones{1, 1, 1};
    added.checks_cluster = added.fixed.cluster != ones;
    bool block_varies = false;
    for (const PlanShapeField& field : added.fields) {
      added.checks_cluster |=
          field.index >= PlanShapeField::kCluster && field.index < PlanShapeField::kSharedBytes;
      block_varies |=
          field.index >= PlanShapeField::kBlock && field.index < PlanShapeField::kCluster;
    }
    added.checks_block = true;
    if (!block_varies) {
      PlanStep block_only;
      block_only.checks_block = true;
      added.fails |= !PlanShapeIsLaunchable(block_only, added.fixed);
      added.checks_block = false;
    }
    added.dependent = step.programmatic_dependent_launch;
    return AddParameters(step, added);
  }

  // `fixed`: where the number goes when it is the same in every launch.
  absl::Status AddField(const Expression& e, int index, int64_t min, int64_t max, uint32_t* fixed,
                        PlanStep& step) {
    HONE_ASSIGN_OR_RETURN(PlanValue value, Compile(e));
    *fixed = 1;
    if (!value.is_constant()) {
      step.fields.push_back({.index = static_cast<uint8_t>(index),
                             .min = min,
                             .max = max,
                             .value = std::move(value)});
    } else if (value.constant() < min || value.constant() > max) {
      step.fails = true;
    } else {
      *fixed = static_cast<uint32_t>(value.constant());
    }
    return absl::OkStatus();
  }

  absl::Status AddParameters(const RecipeStep& step, PlanStep& added) {
    if (step.arguments.size() > kPlanArgumentsMax) {
      return NoPlan(absl::StrCat(step.arguments.size(), " arguments of one step, a plan holds ",
                                 kPlanArgumentsMax));
    }
    for (const int index : step.arguments) {
      if (index < 0 || static_cast<size_t>(index) >= recipe_.arguments.size()) {
        return NoPlan(absl::StrCat("argument ", index, " does not exist"));
      }
      const PlanArgument& argument = plan_->arguments[static_cast<size_t>(index)];
      const auto place = static_cast<uint8_t>(index);
      added.arguments.push_back(place);
      if (argument.kind == PlanArgument::Kind::kTensorMap) {
        added.parameters.push_back({.is_tensor_map = true,
                                    .index = static_cast<uint8_t>(argument.position),
                                    .size_bytes = 0});
        continue;
      }
      const bool is_address = argument.kind == PlanArgument::Kind::kBuffer ||
                              argument.kind == PlanArgument::Kind::kScratch;
      added.parameters.push_back(
          {.is_tensor_map = false,
           .index = place,
           .size_bytes = static_cast<uint8_t>(is_address ? 8 : SizeBytes(argument.type))});
    }
    return absl::OkStatus();
  }

  const LaunchRecipe& recipe_;
  ExpressionBindings facts_;
  std::vector<std::string> slots_;  // names by slot
  bool uses_scalars_ = false;       // some expression mentions a per-launch scalar
  size_t given_scalars_ = 0;
  std::map<std::string, size_t> extents_;  // by text
  std::unique_ptr<LaunchPlan::Data> plan_ = std::make_unique<LaunchPlan::Data>();
};

}  // namespace

LaunchNames NamesOf(const LaunchRecipe& recipe) {
  LaunchNames names;
  names.sizes = recipe.dynamic_sizes;
  for (const RecipeArgument& argument : recipe.arguments) {
    if (std::holds_alternative<RecipeBuffer>(argument.kind)) {
      names.buffers.push_back(argument.name);
    } else if (std::holds_alternative<RecipeScratch>(argument.kind)) {
      names.scratch.push_back(argument.name);
    } else if (const auto* scalar = std::get_if<RecipeScalar>(&argument.kind)) {
      if (!scalar->value) names.scalars.push_back(argument.name);
    }
  }
  return names;
}

LaunchArguments ArgumentsOf(const LaunchNames& names, const PlanInputs& inputs) {
  LaunchArguments arguments;
  for (size_t i = 0; i < names.sizes.size(); ++i) {
    arguments.sizes[names.sizes[i]] = inputs.sizes[i];
  }
  for (size_t i = 0; i < names.buffers.size(); ++i) {
    const PlanBuffer& given = inputs.buffers[i];
    BufferArgument& buffer = arguments.buffers[names.buffers[i]];
    buffer.address = given.address;
    if (given.rank <= 0) continue;
    if (given.shape != nullptr) buffer.shape.assign(given.shape, given.shape + given.rank);
    if (given.strides != nullptr) buffer.strides.assign(given.strides, given.strides + given.rank);
  }
  for (size_t i = 0; i < names.scalars.size(); ++i) {
    arguments.scalars[names.scalars[i]] = inputs.scalars[i];
  }
  for (size_t i = 0; i < names.scratch.size(); ++i) {
    if (inputs.scratch[i] != 0) arguments.scratch[names.scratch[i]] = inputs.scratch[i];
  }
  return arguments;
}

absl::StatusOr<LaunchPlan> LaunchPlan::Create(const LaunchRecipe& recipe,
                                              const SizeBindings& device_facts) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<const Data> data,
                        PlanBuilder(recipe, device_facts).Build());
  return LaunchPlan(std::move(data));
}

}  // namespace hone
