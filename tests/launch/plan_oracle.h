// Holds a plan's answers against CheckGuards and ResolveLaunch, whose meaning they have.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/launch/launch_plan.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {

// One launch's inputs that own their arrays.
struct OwnedInputs {
  std::vector<int64_t> sizes;
  std::vector<PlanBuffer> buffers;
  std::vector<double> scalars;
  std::vector<uint64_t> scratch;

  PlanInputs get() const {
    return {.sizes = sizes.data(),
            .buffers = buffers.data(),
            .scalars = scalars.data(),
            .scratch = scratch.data()};
  }
};

// How many launches were refused and taken, so that a test knows that it saw both.
struct PlanAnswers {
  int launches = 0;
  int accepted = 0;
  int resolved = 0;
};

inline void ExpectSameTensorMap(const PlannedTensorMap& planned,
                                const ResolvedTensorMap& resolved) {
  EXPECT_EQ(planned.recipe, resolved.recipe);
  EXPECT_EQ(planned.address, resolved.address);
  ASSERT_EQ(planned.rank, resolved.dims.size());
  for (size_t i = 0; i < planned.rank; ++i) {
    EXPECT_EQ(planned.dims[i], resolved.dims[i]);
    EXPECT_EQ(planned.box[i], resolved.box[i]);
    EXPECT_EQ(planned.element_strides[i], resolved.element_strides[i]);
    if (i > 0) {
      EXPECT_EQ(planned.strides_bytes[i - 1], resolved.strides_bytes[i - 1]);
    }
  }
}

inline void ExpectSameStep(const LaunchPlan& plan, const PlannedLaunch& launch,
                           const PlannedStep& planned, const ResolvedLaunch& by_name,
                           const ResolvedStep& resolved) {
  ASSERT_EQ(planned.is_kernel, !resolved.symbol.empty());
  if (!planned.is_kernel) {
    EXPECT_EQ(planned.memset_address, resolved.memset_address);
    EXPECT_EQ(planned.memset_bytes, resolved.memset_bytes);
    EXPECT_EQ(planned.memset_value, resolved.memset_value);
    return;
  }
  EXPECT_EQ(plan.recipe().steps[static_cast<size_t>(planned.recipe_step)].symbol, resolved.symbol);
  EXPECT_EQ(planned.grid, resolved.grid);
  EXPECT_EQ(planned.block, resolved.block);
  EXPECT_EQ(planned.cluster, resolved.cluster);
  EXPECT_EQ(planned.dynamic_shared_bytes, resolved.dynamic_shared_bytes);
  EXPECT_EQ(planned.programmatic_dependent_launch, resolved.programmatic_dependent_launch);
  const std::vector<PlanParameter>& parameters = plan.Parameters(planned.recipe_step);
  ASSERT_EQ(parameters.size(), resolved.arguments.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const PackedArgument& packed = resolved.arguments[i];
    ASSERT_EQ(parameters[i].is_tensor_map, packed.tensor_map >= 0);
    if (parameters[i].is_tensor_map) {
      EXPECT_NE(launch.tensor_maps_used >> parameters[i].index & 1, 0u);
      ExpectSameTensorMap(launch.tensor_maps[parameters[i].index],
                          by_name.tensor_maps[static_cast<size_t>(packed.tensor_map)]);
      continue;
    }
    ASSERT_EQ(parameters[i].size_bytes, packed.bytes.size());
    EXPECT_EQ(
        std::memcmp(&launch.words[parameters[i].index], packed.bytes.data(), packed.bytes.size()),
        0)
        << "parameter " << i;
  }
}

// `plan` was made with `facts`.
inline void ExpectAgrees(const LaunchPlan& plan, const SizeBindings& facts,
                         const OwnedInputs& inputs, PlanAnswers& answers) {
  LaunchArguments arguments = ArgumentsOf(plan.names(), inputs.get());
  arguments.sizes.insert(facts.begin(), facts.end());
  ++answers.launches;
  const absl::Status guards = CheckGuards(plan.recipe(), arguments);
  EXPECT_EQ(plan.Accepts(inputs.get()), guards.ok()) << guards;
  answers.accepted += guards.ok() ? 1 : 0;

  const absl::StatusOr<ResolvedLaunch> by_name = ResolveLaunch(plan.recipe(), arguments);
  PlannedLaunch launch;
  const bool resolves = plan.Resolve(inputs.get(), launch);
  ASSERT_EQ(resolves, by_name.ok()) << by_name.status();
  if (!resolves) return;
  ++answers.resolved;
  ASSERT_EQ(launch.step_count, by_name->steps.size());
  for (size_t i = 0; i < launch.step_count; ++i) {
    SCOPED_TRACE(testing::Message() << "step " << i);
    ExpectSameStep(plan, launch, launch.steps[i], *by_name, by_name->steps[i]);
  }
  EXPECT_EQ(static_cast<size_t>(__builtin_popcount(launch.tensor_maps_used)),
            by_name->tensor_maps.size());
}

}  // namespace hone
