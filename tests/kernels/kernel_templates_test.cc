// The catalog's templates as data: they load, their defaults always apply, their spaces have a size
// that a tune can cover.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/kernel_samples.h"

namespace hone {
namespace {

const DeviceFacts kH200Facts = {{"device.sm_count", 132},
                                {"device.shared_bytes_per_block_max", 232448},
                                {"device.max_threads_per_block", 1024},
                                {"device.l2_bytes", 62914560},
                                {"device.warp_size", 32}};

ConfigSpace SpaceOf(const std::string& kernel, const std::string& params,
                    const std::string& architecture) {
  const KernelTemplatePtr found = FindTemplate(TheCatalog(), kernel);
  return ConfigSpace::Create(found, ProblemOf(*found, params), architecture, kH200Facts).value();
}

TEST(KernelTemplatesTest, AllLoadAndAreDescribed) {
  std::string problems;
  for (const CatalogProblem& problem : TheCatalog().Problems()) {
    problems += problem.location + ": " + problem.message + "\n";
  }
  EXPECT_EQ(problems, "");
  std::set<std::string> names;
  for (const CatalogEntryPtr& entry : TheCatalog().List()) {
    const TemplateSpec& spec = entry->kernel_template->spec();
    names.insert(spec.name);
    EXPECT_FALSE(spec.description.empty()) << spec.name;
    EXPECT_FALSE(entry->readme.empty()) << spec.name;
    EXPECT_FALSE(spec.checks.empty()) << spec.name << " has no reference";
  }
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"axpby_act",     "column_reduce",    "copy_1d",     "copy_2d",
                          "cross_entropy", "dequantize_fp8",   "elementwise", "gather_rows",
                          "layernorm",     "log_softmax",      "matmul_mma",  "matmul_tiled",
                          "permute",       "quantize_fp8",     "reduce_all",  "rmsnorm",
                          "rope",          "rope_norm_append", "row_reduce",  "scatter_rows",
                          "softmax",       "transpose"}));
}

TEST(KernelTemplatesTest, EverySampleHasADefaultAndAFewHundredConfigsAtMost) {
  for (const std::string architecture : {"sm_80", "sm_90a", "cpu"}) {
    for (const KernelSample& sample : KernelSamplesFor(architecture)) {
      const ConfigSpace space = SpaceOf(sample.kernel, sample.params, architecture);
      EXPECT_TRUE(space.Default().ok()) << NameOf(sample) << ": " << space.Default().status();
      const auto configs = space.ValidConfigs(400);
      EXPECT_TRUE(configs.ok()) << NameOf(sample) << ": " << configs.status();
    }
  }
}

TEST(KernelTemplatesTest, Copy1dHas24CandidatesAndMoreOnAnH200) {
  const auto configs = SpaceOf("copy_1d", "T=F32 n=67108864", "sm_90a").ValidConfigs(1000);
  ASSERT_TRUE(configs.ok()) << configs.status();
  EXPECT_GE(configs->size(), 24u);
}

// A served kernel ends in a variant that takes every pointer and every size.
TEST(KernelTemplatesTest, DefaultsAcceptEveryPointerAndSize) {
  for (const KernelSample& sample : KernelSamples()) {
    const KernelTemplatePtr found = FindTemplate(TheCatalog(), sample.kernel);
    const Problem problem = ProblemOf(*found, sample.params);
    const ConfigSpace space = SpaceOf(sample.kernel, sample.params, "sm_90a");
    const absl::StatusOr<Program> program =
        InstantiateProgram(*found, problem, space.Default().value(), "sm_90a");
    ASSERT_TRUE(program.ok()) << program.status();
    std::map<std::string, std::string> lowered;
    for (const std::string& name : program->name_expressions) lowered[name] = "kernel";
    const absl::StatusOr<LaunchRecipe> recipe =
        InstantiateRecipe(*found, problem, space.Default().value(), "sm_90a", kH200Facts, lowered);
    ASSERT_TRUE(recipe.ok()) << recipe.status();
    for (const RecipeArgument& argument : recipe->arguments) {
      const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind);
      if (buffer == nullptr) continue;
      EXPECT_EQ(buffer->alignment_bytes, SizeBytes(buffer->dtype))
          << NameOf(sample) << " " << argument.name;
    }
    for (int64_t size : {int64_t{1}, int64_t{33}, (int64_t{1} << 31) + 1}) {
      SizeBindings sizes;
      for (const std::string& name : recipe->dynamic_sizes) sizes[name] = size;
      for (const Expression& guard : recipe->guards) {
        EXPECT_NE(guard.Evaluate(sizes).value_or(0), 0)
            << NameOf(sample) << " " << guard.ToString();
      }
    }
  }
}

// More than 2^31 elements: grids stay within what a device takes, and no expression overflows.
TEST(KernelTemplatesTest, GridsOfHugeProblemsFit) {
  const std::map<std::string, std::string> huge = {
      {"copy_1d", "T=U8 n=34359738368"},
      {"copy_2d", "T=BF16 rows=131072 cols=131072"},
      {"transpose", "T=BF16 rows=131072 cols=131072"},
      {"gather_rows", "T=BF16 rows=16777216 cols=1024 table_rows=1048576"},
      {"axpby_act", "T=BF16 n=17179869184"},
      {"elementwise", "f=add_bias_gelu A=BF16 rows=131072 cols=131072"},
      {"row_reduce", "T=BF16 rows=16777216 cols=1024"},
      {"softmax", "T=BF16 rows=16777216 cols=1024"},
      {"log_softmax", "T=BF16 rows=16777216 cols=1024"},
      {"cross_entropy", "T=BF16 rows=16777216 cols=1024"},
      {"layernorm", "T=BF16 rows=16777216 cols=4096"},
      {"rmsnorm", "T=BF16 rows=16777216 cols=1024"},
      {"rope", "T=BF16 tokens=16777216 q_heads=32 kv_heads=8"},
      {"rope_norm_append", "T=BF16 tokens=16777216 q_heads=32 kv_heads=8 cache_slots=16777216"},
      {"quantize_fp8", "T=BF16 SCALE=block rows=16777216 cols=1024"},
      {"dequantize_fp8", "T=BF16 SCALE=block rows=16777216 cols=1024"},
      {"column_reduce", "T=BF16 OP=argmax rows=16777216 cols=1024"},
      {"reduce_all", "T=BF16 OP=argmax n=17179869184"},
      {"matmul_mma", "T=BF16 m=4194304 n=4096 k=4096"},
      {"matmul_tiled", "T=BF16 m=4194304 n=4096 k=4096"}};
  for (const auto& [kernel, params] : huge) {
    const KernelTemplatePtr found = FindTemplate(TheCatalog(), kernel);
    const Problem problem = ProblemOf(*found, params);
    const ConfigSpace space = SpaceOf(kernel, params, "sm_90a");
    for (const Config& config : SampleConfigs(space, 8)) {
      const Program program = InstantiateProgram(*found, problem, config, "sm_90a").value();
      std::map<std::string, std::string> lowered;
      for (const std::string& name : program.name_expressions) lowered[name] = "kernel";
      const LaunchRecipe recipe =
          InstantiateRecipe(*found, problem, config, "sm_90a", kH200Facts, lowered).value();
      const absl::StatusOr<int64_t> grid =
          recipe.steps.at(0).launch.grid[0].Evaluate(problem.dynamic_sizes());
      ASSERT_TRUE(grid.ok()) << kernel << ": " << grid.status();
      EXPECT_GE(*grid, 1) << kernel;
      EXPECT_LE(*grid, 2147483647) << kernel << " " << config.ToString();
    }
  }
}

}  // namespace
}  // namespace hone
