#include "runtime/kernel/instantiate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/specs.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Texts(const std::vector<Expression>& expressions) {
  std::vector<std::string> texts;
  for (const Expression& expression : expressions) texts.push_back(expression.ToString());
  return texts;
}

const RecipeBuffer& BufferIn(const LaunchRecipe& recipe, size_t index) {
  return std::get<RecipeBuffer>(recipe.arguments[index].kind);
}

TEST(InstantiateProgramTest, SpellsTypesIntegersFlagsAndChoices) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    Parameter act;
    act.name = "act";
    act.kind = ParameterKind::kChoice;
    act.choices = {"relu", "ns::gelu"};
    Parameter causal;
    causal.name = "causal";
    causal.kind = ParameterKind::kFlag;
    Parameter k;
    k.name = "k";
    spec.params.insert(spec.params.end(), {act, causal, k});
    spec.base.steps[0].entry = "copy<${T}, ${XBLOCK}, ${act}, ${causal}, ${k}>";
    spec.defines = {{"WIDTH", "${VEC}"}, {"EMPTY", ""}};
    spec.base.options = {"-lineinfo"};
    spec.headers = {"b.h", "a.h"};
    spec.header_sets = {std::string(64, 'a')};
    spec.files.push_back({"a.h", "// a\n"});
    spec.files.push_back({"b.h", "// b\n"});
  }));
  const auto program =
      InstantiateProgram(*made, ProblemOf(*made, "T=F16 n=8 act=ns::gelu causal=true k=3"),
                         ConfigOf("XBLOCK=128 VEC=4"), "sm_90a");
  ASSERT_THAT(program, IsOk());
  EXPECT_THAT(program->name_expressions, ElementsAre("copy<__half, 128, ns::gelu, true, 3>"));
  EXPECT_THAT(program->defines,
              ElementsAre(std::make_pair("WIDTH", "4"), std::make_pair("EMPTY", "")));
  EXPECT_EQ(program->source, "// first\n");
  EXPECT_EQ(program->name, "copy.cu");
  ASSERT_EQ(program->headers.size(), 2u);
  EXPECT_EQ(program->headers[0].name, "b.h");
  EXPECT_EQ(program->headers[1].content, "// a\n");
  EXPECT_THAT(program->header_sets, ElementsAre(std::string(64, 'a')));
  EXPECT_THAT(program->options, ElementsAre("-lineinfo"));
  EXPECT_EQ(program->architecture, "sm_90a");
}

TEST(InstantiateProgramTest, DynamicSizesDoNotChangeTheProgram) {
  const auto made = SimpleTemplate();
  const Config config = ConfigOf("XBLOCK=128 VEC=4");
  const auto small = InstantiateProgram(*made, ProblemOf(*made, "n=1"), config, "sm_90a");
  const auto large = InstantiateProgram(*made, ProblemOf(*made, "n=4096"), config, "sm_90a");
  EXPECT_EQ(small->name_expressions, large->name_expressions);
}

// A template whose second step runs for SPLIT > 1 only, with scratch zeroed in between.
KernelTemplatePtr SplitTemplate() {
  return Made(Changed([](TemplateSpec& spec) {
    spec.base.tunables.push_back(MakeTunable("SPLIT", {1, 2}));
    TemplateScratch scratch;
    scratch.bytes = Parsed("SPLIT > 1 ? n * SPLIT * sizeof(T) : 0");
    scratch.zeroed = ScratchZeroed::kEveryLaunch;
    spec.base.arguments.push_back({"partial", scratch});
    TemplateStep memset;
    memset.memset_argument = "partial";
    memset.memset_value = 255;
    memset.memset_bytes = Parsed("n * sizeof(T)");
    memset.when = Parsed("SPLIT > 1 && n > 100");
    TemplateStep combine;
    combine.entry = "combine<${T}, ${SPLIT}>";
    combine.arguments = {"partial", "dst"};
    combine.when = Parsed("SPLIT > 1");
    combine.launch.shape.grid[0] = Parsed("min(ceil_div(n, 64), 2 * device.sm_count)");
    combine.launch.shape.cluster[0] = Parsed("SPLIT");
    combine.launch.shape.dynamic_shared_bytes = Parsed("XBLOCK * sizeof(T)");
    TemplateStep last = combine;
    last.programmatic_dependent_launch = true;
    spec.base.steps.insert(spec.base.steps.end(), {memset, combine, last});
  }));
}

TEST(InstantiateProgramTest, StepsThatNeverRunAreNotCompiled) {
  const auto made = SplitTemplate();
  const Problem problem = ProblemOf(*made, "n=8");
  EXPECT_THAT(InstantiateProgram(*made, problem, ConfigOf("XBLOCK=64 VEC=1 SPLIT=1"), "cpu")
                  ->name_expressions,
              ElementsAre("copy<float, 64, 1>"));
  EXPECT_THAT(InstantiateProgram(*made, problem, ConfigOf("XBLOCK=64 VEC=1 SPLIT=2"), "cpu")
                  ->name_expressions,
              ElementsAre("copy<float, 64, 1>", "combine<float, 2>"));
}

TEST(InstantiateRecipeTest, LeavesDynamicSizesAndFoldsTheRest) {
  const auto made = SimpleTemplate();
  const auto recipe =
      RecipeOf(*made, ProblemOf(*made, "T=F16 n=4096"), ConfigOf("XBLOCK=128 VEC=4"));
  ASSERT_THAT(recipe, IsOk());
  EXPECT_THAT(recipe->dynamic_sizes, ElementsAre("n"));
  ASSERT_EQ(recipe->steps.size(), 1u);
  EXPECT_EQ(recipe->steps[0].symbol, "sym:copy<__half, 128, 4>");
  EXPECT_EQ(recipe->steps[0].launch.grid[0], Parsed("ceil_div(n, 512)"));
  EXPECT_EQ(recipe->steps[0].launch.block[0].constant(), 128);
  EXPECT_THAT(recipe->steps[0].arguments, ElementsAre(0, 1, 2));
  EXPECT_EQ(BufferIn(*recipe, 0).dtype, DataType::kF16);
  EXPECT_EQ(BufferIn(*recipe, 0).alignment_bytes, 8);
  EXPECT_EQ(BufferIn(*recipe, 0).access, Access::kWrite);
  EXPECT_EQ(std::get<RecipeScalar>(recipe->arguments[2].kind).value->ToString(), "n");
  EXPECT_EQ(recipe->work_bytes.Evaluate(SizeBindings{{"n", 10}}).value(), 40);
  EXPECT_TRUE(recipe->guards.empty());
}

TEST(InstantiateRecipeTest, StridesAreDenseRowMajorUnlessGiven) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    Parameter m;
    m.name = "m";
    m.dynamic = true;
    spec.params.push_back(m);
    BufferOf(spec.base, 0).shape = {Parsed("m"), Parsed("n"), Parsed("2")};
    BufferOf(spec.base, 1).shape = {Parsed("m"), Parsed("n")};
    BufferOf(spec.base, 1).strides = {Parsed("1"), Parsed("m + 8")};
  }));
  const auto recipe = RecipeOf(*made, ProblemOf(*made, "n=8 m=4"), ConfigOf("XBLOCK=64 VEC=1"));
  ASSERT_THAT(recipe, IsOk());
  const SizeBindings sizes = {{"n", 8}, {"m", 4}};
  std::vector<int64_t> strides;
  for (const Expression& stride : BufferIn(*recipe, 0).strides) {
    strides.push_back(stride.Evaluate(sizes).value());
  }
  EXPECT_THAT(strides, ElementsAre(16, 2, 1));
  EXPECT_EQ(BufferIn(*recipe, 1).strides[1].Evaluate(sizes).value(), 12);
}

TEST(InstantiateRecipeTest, ConstraintsOverDynamicSizesBecomeGuards) {
  const auto made = SimpleTemplate({.constraints = {"XBLOCK <= 256", "n % VEC == 0"}});
  const Problem problem = ProblemOf(*made, "n=4096");
  EXPECT_THAT(Texts(RecipeOf(*made, problem, ConfigOf("XBLOCK=64 VEC=4"))->guards),
              ElementsAre(Parsed("n % 4 == 0").ToString()));
  // True for every size: a fallback needs no guard.
  EXPECT_TRUE(RecipeOf(*made, problem, ConfigOf("XBLOCK=64 VEC=1"))->guards.empty());
}

TEST(InstantiateRecipeTest, AConstraintThatCannotHoldIsAnError) {
  const auto made = SimpleTemplate({.constraints = {"XBLOCK < 64"}});
  EXPECT_THAT(RecipeOf(*made, ProblemOf(*made, "n=1"), ConfigOf("XBLOCK=64 VEC=1")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("XBLOCK < 64")));
}

TEST(InstantiateRecipeTest, DeclaredDomainsAreGuards) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    spec.params[1].min = 16;
    spec.params[1].max = 1 << 20;
    spec.params[1].multiple_of = 8;
  }));
  const auto recipe = RecipeOf(*made, ProblemOf(*made, "n=64"), ConfigOf("XBLOCK=64 VEC=1"));
  EXPECT_EQ(recipe->guards.size(), 3u);
  EXPECT_EQ(recipe->guards, DomainGuards(*made));
  const auto holds = [&](int64_t n) {
    for (const Expression& guard : recipe->guards) {
      if (guard.Evaluate(SizeBindings{{"n", n}}).value() == 0) return false;
    }
    return true;
  };
  EXPECT_TRUE(holds(16));
  EXPECT_FALSE(holds(8));
  EXPECT_FALSE(holds(20));
  EXPECT_FALSE(holds((1 << 20) + 8));
}

TEST(InstantiateRecipeTest, DeviceFactsAreFoldedWhenGivenAndLeftOtherwise) {
  const auto made = SplitTemplate();
  const Problem problem = ProblemOf(*made, "n=8");
  const Config config = ConfigOf("XBLOCK=64 VEC=1 SPLIT=2");
  const auto open = RecipeOf(*made, problem, config);
  EXPECT_EQ(open->steps[2].launch.grid[0].Variables().count("device.sm_count"), 1u);
  const auto folded = RecipeOf(*made, problem, config, "sm_90a", {{"device.sm_count", 10}});
  EXPECT_EQ(folded->steps[2].launch.grid[0].Evaluate(SizeBindings{{"n", 1 << 20}}).value(), 20);
}

TEST(InstantiateRecipeTest, StepsMemsetsScratchAndClustersAreCarriedOver) {
  const auto made = SplitTemplate();
  const auto recipe =
      RecipeOf(*made, ProblemOf(*made, "n=8"), ConfigOf("XBLOCK=128 VEC=1 SPLIT=2"));
  ASSERT_THAT(recipe, IsOk());
  ASSERT_EQ(recipe->steps.size(), 4u);
  const RecipeStep& memset = recipe->steps[1];
  EXPECT_TRUE(memset.symbol.empty());
  EXPECT_EQ(memset.memset_argument, 3);
  EXPECT_EQ(memset.memset_value, 255);
  EXPECT_EQ(memset.memset_bytes->Evaluate(SizeBindings{{"n", 8}}).value(), 32);
  EXPECT_EQ(memset.when->Evaluate(SizeBindings{{"n", 101}}).value(), 1);
  EXPECT_EQ(memset.when->Evaluate(SizeBindings{{"n", 100}}).value(), 0);
  const RecipeStep& combine = recipe->steps[2];
  EXPECT_FALSE(combine.when.has_value());  // always, now that SPLIT is known
  EXPECT_THAT(combine.arguments, ElementsAre(3, 0));
  EXPECT_EQ(combine.launch.cluster[0].constant(), 2);
  EXPECT_EQ(combine.launch.dynamic_shared_bytes.constant(), 512);
  EXPECT_TRUE(recipe->steps[3].programmatic_dependent_launch);
  const auto& scratch = std::get<RecipeScratch>(recipe->arguments[3].kind);
  EXPECT_EQ(scratch.bytes.Evaluate(SizeBindings{{"n", 8}}).value(), 64);
  EXPECT_EQ(scratch.zeroed, ScratchZeroed::kEveryLaunch);
  EXPECT_EQ(
      RecipeOf(*made, ProblemOf(*made, "n=8"), ConfigOf("XBLOCK=128 VEC=1 SPLIT=1"))->steps.size(),
      1u);
}

TEST(InstantiateRecipeTest, TensorMapsTakeTheBuffersTypeAndUnitStrides) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    TemplateTensorMap map;
    map.map.buffer = "src";
    map.map.dims = {Parsed("n"), Parsed("4")};
    map.map.strides_bytes = {Parsed("n * sizeof(T)")};
    map.map.box = {Parsed("VEC * 8"), Parsed("4")};
    map.map.swizzle = 3;
    map.map.fill_nan = true;
    spec.base.arguments.push_back({"map", map});
    spec.base.steps[0].arguments = {"map", "dst"};
  }));
  const auto recipe = RecipeOf(*made, ProblemOf(*made, "T=F16 n=64"), ConfigOf("XBLOCK=64 VEC=4"));
  ASSERT_THAT(recipe, IsOk());
  const auto& map = std::get<RecipeTensorMap>(recipe->arguments[3].kind);
  EXPECT_EQ(map.dtype, DataType::kF16);
  EXPECT_THAT(Texts(map.dims), ElementsAre("n", "4"));
  EXPECT_EQ(map.strides_bytes[0].Evaluate(SizeBindings{{"n", 64}}).value(), 128);
  EXPECT_THAT(Texts(map.box), ElementsAre("32", "4"));
  EXPECT_THAT(Texts(map.element_strides), ElementsAre("1", "1"));
  EXPECT_EQ(map.swizzle, 3);
  EXPECT_TRUE(map.fill_nan);
}

TEST(InstantiateRecipeTest, AMissingLoweredNameIsNamed) {
  const auto made = SimpleTemplate();
  EXPECT_THAT(InstantiateRecipe(*made, ProblemOf(*made, "n=1"), ConfigOf("XBLOCK=64 VEC=1"),
                                "sm_90a", {}, {}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("copy<float, 64, 1>")));
}

TEST(InstantiateRecipeTest, AnExpressionThatFailsNamesItsField) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    spec.base.steps[0].launch.shape.grid[1] = Parsed("64 / (VEC - 1)");
  }));
  EXPECT_THAT(RecipeOf(*made, ProblemOf(*made, "n=1"), ConfigOf("XBLOCK=64 VEC=1")).status(),
              testing::ResultOf([](const absl::Status& s) { return std::string(s.message()); },
                                HasSubstr("steps[0].launch.grid_y")));
}

TEST(CheckPlanTest, ReferencesAndGeneratorsAreOneProgramWithoutTunables) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    BufferOf(spec.base, 1).init = InitKind::kGenerator;
    BufferOf(spec.base, 1).generator_entry = "fill<${T}>";
    BufferOf(spec.base, 1).generator_launch.shape.grid[0] = Parsed("ceil_div(n, 32)");
    TemplateScalar eps;
    eps.type = DataType::kF32;
    eps.sample = 1e-6;
    spec.base.arguments.push_back({"eps", eps});
  }));
  const Problem problem = ProblemOf(*made, "T=F16 n=64");
  const auto program = InstantiateCheckProgram(*made, problem, "sm_90a");
  ASSERT_THAT(program, IsOk());
  EXPECT_THAT(program->name_expressions, ElementsAre("copy_reference<__half>", "fill<__half>"));
  const auto plan = InstantiateCheckPlan(*made, problem, "sm_90a", {}, SelfNames(*program));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->program.name_expressions, program->name_expressions);

  ASSERT_EQ(plan->inits.size(), 1u);  // dst is poisoned, not filled
  EXPECT_EQ(plan->inits[0].argument, "src");
  EXPECT_EQ(plan->inits[0].kind, InitKind::kGenerator);
  ASSERT_EQ(plan->inits[0].generator.steps.size(), 1u);
  EXPECT_EQ(plan->inits[0].generator.steps[0].symbol, "sym:fill<__half>");
  EXPECT_THAT(plan->scalar_samples, ElementsAre(std::make_pair("eps", 1e-6)));

  ASSERT_EQ(plan->references.size(), 1u);
  const LaunchRecipe& reference = plan->references[0].reference;
  ASSERT_EQ(reference.steps.size(), 1u);
  EXPECT_EQ(reference.steps[0].symbol, "sym:copy_reference<__half>");
  EXPECT_THAT(reference.steps[0].arguments, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(reference.guards.empty());
  ASSERT_EQ(plan->references[0].outputs.size(), 1u);
  EXPECT_TRUE(plan->references[0].outputs[0].tolerance.exact);
}

TEST(CheckPlanTest, ChecksWithOneReferenceShareItsRun) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    TemplateArgument second = spec.base.arguments[0];
    second.name = "dst2";
    spec.base.arguments.push_back(second);
    spec.base.arguments.push_back(second);
    spec.base.arguments.back().name = "dst3";
    TemplateCheck other = spec.checks[0];
    other.output = "dst2";
    other.tolerance = {.exact = false, .atol = 1e-3};
    other.by_dtype[DataType::kF16] = {.exact = false, .atol = 1e-1};
    spec.checks.push_back(other);
    other.output = "dst3";
    other.launch.shape.grid[0] = Parsed("n");
    spec.checks.push_back(other);
  }));
  const Problem problem = ProblemOf(*made, "T=F16 n=64");
  const auto program = InstantiateCheckProgram(*made, problem, "sm_90a");
  EXPECT_EQ(program->name_expressions.size(), 1u);
  const auto plan = InstantiateCheckPlan(*made, problem, "sm_90a", {}, SelfNames(*program));
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ(plan->references.size(), 2u);  // the third is launched differently
  EXPECT_EQ(plan->references[0].outputs.size(), 2u);
  EXPECT_DOUBLE_EQ(plan->references[0].outputs[1].tolerance.atol, 1e-1);
  EXPECT_EQ(plan->outputs.size(), 3u);
}

TEST(CheckPlanTest, OptionalBuffersWithoutElementsAreNotThere) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    Parameter more;
    more.name = "MORE";
    more.kind = ParameterKind::kFlag;
    more.default_value = int64_t{0};
    spec.params.push_back(more);
    TemplateArgument second = spec.base.arguments[0];
    second.name = "dst2";
    auto& buffer = std::get<TemplateBuffer>(second.kind);
    buffer.shape = {Parsed("MORE ? n : 0"), Parsed("4")};
    buffer.optional = true;
    spec.base.arguments.push_back(second);
    BufferOf(spec.base, 0).may_alias = {"dst2"};
    TemplateCheck check = spec.checks[0];
    check.output = "dst2";
    spec.checks.push_back(check);
  }));
  for (const bool more : {false, true}) {
    const Problem problem = ProblemOf(*made, more ? "n=8 MORE=1" : "n=8");
    const auto recipe = RecipeOf(*made, problem, ConfigOf("XBLOCK=64 VEC=1"));
    ASSERT_THAT(recipe, IsOk());
    EXPECT_EQ(std::holds_alternative<RecipeBuffer>(recipe->arguments[3].kind), more);
    EXPECT_EQ(BufferIn(*recipe, 0).may_alias.size(), more ? 1u : 0u);
    const auto program = InstantiateCheckProgram(*made, problem, "sm_90a");
    const auto plan = InstantiateCheckPlan(*made, problem, "sm_90a", {}, SelfNames(*program));
    ASSERT_THAT(plan, IsOk());
    EXPECT_EQ(plan->outputs.size(), more ? 2u : 1u);
    EXPECT_EQ(plan->references[0].outputs.size(), more ? 2u : 1u);
  }
}

TEST(CheckPlanTest, WithoutAReferenceNothingIsCompiledAndOutputsGetATolerance) {
  const auto made = SimpleTemplate({.reference = false});
  const auto program = InstantiateCheckProgram(*made, ProblemOf(*made, "n=64"), "sm_90a");
  ASSERT_THAT(program, IsOk());
  EXPECT_TRUE(program->name_expressions.empty());
  const auto plan = InstantiateCheckPlan(*made, ProblemOf(*made, "n=64"), "sm_90a", {}, {});
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->references.empty());
  ASSERT_EQ(plan->outputs.size(), 1u);
  EXPECT_EQ(plan->outputs[0].argument, "dst");
  EXPECT_GT(plan->outputs[0].tolerance.rtol, 0);
}

TEST(CheckPlanTest, ArgumentsThatDependOnATunableSeeItsDefaultForTheArchitecture) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    spec.base.tunables[1].per_architecture = {{{"cpu"}, {4}, 4}};
  }));
  const Problem problem = ProblemOf(*made, "n=64");
  const auto names = SelfNames(*InstantiateCheckProgram(*made, problem, "cpu"));
  const auto plan = InstantiateCheckPlan(*made, problem, "cpu", {}, names);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(BufferIn(plan->references[0].reference, 0).alignment_bytes, 16);
}

}  // namespace
}  // namespace hone
