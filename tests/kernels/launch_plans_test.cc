// Every kernel of the catalog can be launched by a plan, with the answers of the launch by name.
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/kernels/kernel_samples.h"
#include "tests/launch/plan_oracle.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

const SizeBindings kPlanFacts = {{"device.sm_count", 132},
                                 {"device.shared_bytes_per_block_max", 232448},
                                 {"device.max_threads_per_block", 1024},
                                 {"device.l2_bytes", 62914560},
                                 {"device.warp_size", 32}};

// Small, as tuned, a little beside it, far beyond.
int64_t SizeNear(int64_t tuned, std::mt19937_64& random) {
  switch (random() % 6) {
    case 0:
      return static_cast<int64_t>(random() % 4) - 1;
    case 1:
      return tuned + static_cast<int64_t>(random() % 5) - 2;
    case 2:
      return int64_t{1} << (random() % 63);
    default:
      return tuned;
  }
}

// Buffers mostly aligned and apart, of trusted shapes: with many of them too, most launches are
// good.
OwnedInputs InputsNear(const LaunchNames& names, const SizeBindings& tuned,
                       std::mt19937_64& random) {
  OwnedInputs inputs;
  for (const std::string& name : names.sizes) {
    inputs.sizes.push_back(SizeNear(tuned.at(name), random));
  }
  for (size_t i = 0; i < names.buffers.size(); ++i) {
    PlanBuffer buffer{.address = (i + 1) << 40};
    const uint64_t kind = random() % (8 + 4 * names.buffers.size());
    if (kind == 0) buffer.address = 0;
    if (kind == 1) buffer.address += 4;
    if (kind == 2) buffer.address = uint64_t{1} << 40;
    inputs.buffers.push_back(buffer);
  }
  for (size_t i = 0; i < names.scalars.size(); ++i) {
    inputs.scalars.push_back(random() % 4 == 0 ? 0.5 : 3);
  }
  for (size_t i = 0; i < names.scratch.size(); ++i) {
    inputs.scratch.push_back(random() % 8 == 0 ? 0 : (i + 64) << 40);
  }
  return inputs;
}

void ExpectPlansAgree(const KernelSample& sample, const std::string& architecture) {
  const KernelTemplatePtr found = FindTemplate(TheCatalog(), sample.kernel);
  ASSERT_NE(found, nullptr);
  const Problem problem = ProblemOf(*found, sample.params);
  const absl::StatusOr<ConfigSpace> space =
      ConfigSpace::Create(found, problem, architecture, kPlanFacts);
  ASSERT_THAT(space, IsOk());
  std::mt19937_64 random(1);
  PlanAnswers answers;
  for (const Config& config : SampleConfigs(*space, 6)) {
    SCOPED_TRACE(config.ToString());
    const absl::StatusOr<Program> program =
        InstantiateProgram(*found, problem, config, architecture);
    ASSERT_THAT(program, IsOk());
    std::map<std::string, std::string> lowered;
    for (const std::string& name : program->name_expressions) lowered[name] = name;
    // Without facts, as recipes are served to clients of other devices.
    const absl::StatusOr<LaunchRecipe> recipe =
        InstantiateRecipe(*found, problem, config, architecture, {}, lowered);
    ASSERT_THAT(recipe, IsOk());
    const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(*recipe, kPlanFacts);
    ASSERT_THAT(plan, IsOk());
    for (int i = 0; i < 60; ++i) {
      ExpectAgrees(*plan, kPlanFacts, InputsNear(plan->names(), problem.dynamic_sizes(), random),
                   answers);
    }
  }
  EXPECT_GT(answers.accepted, answers.launches / 20);
  EXPECT_GT(answers.resolved, answers.launches / 20);
}

TEST(LaunchPlansOfTemplatesTest, AgreeWithLaunchesByName) {
  for (const std::string architecture : {"sm_90a", "cpu"}) {
    for (const KernelSample& sample : KernelSamplesFor(architecture)) {
      SCOPED_TRACE(absl::StrCat(NameOf(sample), " on ", architecture));
      ExpectPlansAgree(sample, architecture);
    }
  }
}

}  // namespace
}  // namespace hone
