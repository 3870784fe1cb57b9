#include "runtime/launch/launch_plan.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/launch/plan_oracle.h"
#include "tests/launch/recipes.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum absl::StatusCode;

constexpr int64_t kSizeMax = std::numeric_limits<int64_t>::max();

// Every size with every address of its buffers.
void ExpectAgreesOnCopies(const LaunchRecipe& recipe, PlanAnswers& answers) {
  const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(recipe, {});
  ASSERT_THAT(plan, IsOk());
  for (const int64_t n : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{4096}, int64_t{4097},
                          int64_t{1} << 42, int64_t{1} << 61, kSizeMax}) {
    for (const uint64_t dst : {0x0, 0x100000, 0x100004, 0x200000 - 16384}) {
      for (const uint64_t src : {0x0, 0x100000, 0x100010, 0x200000}) {
        SCOPED_TRACE(absl::StrCat("n ", n, " dst ", absl::Hex(dst), " src ", absl::Hex(src)));
        ExpectAgrees(*plan, {}, {.sizes = {n}, .buffers = {{.address = dst}, {.address = src}}},
                     answers);
      }
    }
  }
}

TEST(LaunchPlanTest, GuardsAndNumbersAreThoseOfTheLaunchByName) {
  PlanAnswers answers;
  ExpectAgreesOnCopies(CopyRecipe(), answers);
  EXPECT_GT(answers.accepted, 20);
  EXPECT_GT(answers.resolved, 20);
  EXPECT_LT(answers.accepted, answers.launches);
}

// scenario P17: what was specialised on size and alignment is checked for the true ones.
TEST(LaunchPlanTest, GuardsAreCheckedForTheTrueSizesAndPointers) {
  LaunchRecipe recipe = CopyRecipe();
  recipe.guards = {E("n % 4 == 0"), E("n >= 0 && n <= 1048576")};
  const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(recipe, {});
  ASSERT_THAT(plan, IsOk());
  const auto accepts = [&](int64_t n, uint64_t dst, uint64_t src) {
    const PlanBuffer buffers[] = {{.address = dst}, {.address = src}};
    return plan->Accepts({.sizes = &n, .buffers = buffers});
  };
  EXPECT_TRUE(accepts(4096, 0x100000, 0x200000));
  EXPECT_FALSE(accepts(4097, 0x100000, 0x200000));
  EXPECT_FALSE(accepts(1048580, 0x1000000, 0x2000000));
  EXPECT_FALSE(accepts(4096, 0x100004, 0x200000)) << "misaligned";
  EXPECT_FALSE(accepts(4096, 0x100000, 0x100010)) << "overlapping";
  EXPECT_TRUE(accepts(0, 0x100000, 0x100000)) << "nothing overlaps nothing";
}

TEST(LaunchPlanTest, VariationsOfARecipeAgree) {
  using Change = void (*)(LaunchRecipe&);
  const Change changes[] = {
      [](LaunchRecipe& r) { std::get<RecipeBuffer>(r.arguments[1].kind).optional = true; },
      [](LaunchRecipe& r) { std::get<RecipeBuffer>(r.arguments[0].kind).may_alias = {"src"}; },
      [](LaunchRecipe& r) { std::get<RecipeBuffer>(r.arguments[0].kind).access = Access::kRead; },
      [](LaunchRecipe& r) { std::get<RecipeBuffer>(r.arguments[0].kind).alignment_bytes = 12; },
      [](LaunchRecipe& r) { std::get<RecipeBuffer>(r.arguments[0].kind).strides = {E("n - 4")}; },
      [](LaunchRecipe& r) { std::get<RecipeBuffer>(r.arguments[0].kind).strides = {}; },
      [](LaunchRecipe& r) { std::get<RecipeBuffer>(r.arguments[1].kind).shape = {E("256")}; },
      [](LaunchRecipe& r) { std::get<RecipeBuffer>(r.arguments[1].kind).shape = {E("0 - 1")}; },
      [](LaunchRecipe& r) { std::get<RecipeBuffer>(r.arguments[1].kind).shape = {E("absent")}; },
      [](LaunchRecipe& r) { r.arguments[2].kind = ComputedScalar(DataType::kI32, "n"); },
      [](LaunchRecipe& r) { r.arguments[2].kind = ComputedScalar(DataType::kI8, "4096"); },
      [](LaunchRecipe& r) { r.arguments[2].kind = ComputedScalar(DataType::kBF16, "n"); },
      [](LaunchRecipe& r) { r.guards = {E("0")}; },
      [](LaunchRecipe& r) { r.guards = {E("absent")}; },
      [](LaunchRecipe& r) { r.guards = {E("n / (n - 4096) == 0 || n > 1")}; },
      [](LaunchRecipe& r) {
        r.steps[0].launch.grid = {E("n"), E("n"), E("2")};
      },
      [](LaunchRecipe& r) {
        r.steps[0].launch.block = {E("512"), E("2"), E("n")};
      },
      [](LaunchRecipe& r) {
        r.steps[0].launch.block = {E("512"), E("4"), E("1")};
      },
      [](LaunchRecipe& r) { r.steps[0].launch.block[0] = E("0"); },
      [](LaunchRecipe& r) { r.steps[0].launch.cluster[0] = E("4"); },
      [](LaunchRecipe& r) { r.steps[0].launch.cluster[1] = E("min(n, 2)"); },
      [](LaunchRecipe& r) { r.steps[0].launch.dynamic_shared_bytes = E("n * 4"); },
      [](LaunchRecipe& r) { r.steps[0].when = E("n % 1024 != 0"); },
      [](LaunchRecipe& r) { r.steps[0].when = E("n / n"); },
      [](LaunchRecipe& r) {
        r.steps[0].arguments = {2, 2, 0};
      },
  };
  PlanAnswers answers;
  int number = 0;
  for (const Change change : changes) {
    SCOPED_TRACE(absl::StrCat("change ", number++));
    LaunchRecipe recipe = CopyRecipe();
    change(recipe);
    ExpectAgreesOnCopies(recipe, answers);
  }
  EXPECT_GT(answers.accepted, 200);
  EXPECT_GT(answers.resolved, 200);
}

TEST(LaunchPlanTest, ShapesAndStridesThatAreGivenAreChecked) {
  const LaunchRecipe recipe = RmsNormRecipe();
  const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(recipe, {});
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->names().buffers, ElementsAre("y", "x", "weight"));
  EXPECT_THAT(plan->names().scalars, ElementsAre("eps"));
  PlanAnswers answers;
  const int64_t shapes[][3] = {{3, 4096, 1}, {1, 4096, 1}, {0, 4096, 1}, {4096, 3, 1}};
  const int64_t strides[][3] = {{4096, 1, 1}, {8192, 1, 1}, {1, 4096, 1}};
  for (const int64_t rows : {0, 1, 3}) {
    for (const auto& shape : shapes) {
      for (const auto& stride : strides) {
        for (const int rank : {-1, 0, 1, 2, 3}) {
          const PlanBuffer x{.address = 0x200000, .shape = shape, .strides = stride, .rank = rank};
          const PlanBuffer trusted{.address = 0x100000};
          const PlanBuffer weight{.address = 0x300000};
          ExpectAgrees(*plan, {},
                       {.sizes = {rows}, .buffers = {trusted, x, weight}, .scalars = {1e-5}},
                       answers);
        }
      }
    }
  }
  EXPECT_GT(answers.resolved, 60);
  EXPECT_LT(answers.resolved, answers.launches);
}

TEST(LaunchPlanTest, ScalarsGivenPerLaunchAreEncodedAndReadByExpressions) {
  for (int type = 1; type <= 15; ++type) {
    LaunchRecipe recipe = CopyRecipe();
    recipe.arguments.push_back(
        {"s", RecipeScalar{.type = static_cast<DataType>(type), .value = std::nullopt}});
    recipe.steps[0].arguments = {3, 0};
    // Floating-point scalars have no value for expressions.
    if (!IsFloatingPoint(static_cast<DataType>(type))) {
      recipe.steps[0].launch.grid[1] = E("s");
      recipe.guards = {E("n > 8 || s > 1")};
    }
    const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(recipe, {});
    ASSERT_THAT(plan, IsOk());
    PlanAnswers answers;
    for (const double s : {0.0, 1.0, -1.0, 0.5, 3.0, 127.0, 128.0, 65536.0, 0x1p31, 0x1p63, -0x1p63,
                           0x1p64, 1e300, std::nan(""), HUGE_VAL}) {
      for (const int64_t n : {4, 16}) {
        SCOPED_TRACE(absl::StrCat("type ", type, " s ", s, " n ", n));
        ExpectAgrees(
            *plan, {},
            {.sizes = {n}, .buffers = {{.address = 0x1000}, {.address = 0x2000}}, .scalars = {s}},
            answers);
      }
    }
    EXPECT_GT(answers.resolved, 0);
  }
}

TEST(LaunchPlanTest, ScratchMemsetsAndDependentStepsAgree) {
  LaunchRecipe recipe = CopyRecipe();
  recipe.arguments.push_back(
      {"partial", RecipeScratch{.bytes = E("n * 8"), .zeroed = ScratchZeroed::kEveryLaunch}});
  recipe.arguments.push_back({"once", RecipeScratch{.bytes = E("16")}});
  recipe.steps[0].arguments = {0, 1, 3, 4};
  RecipeStep memset;
  memset.memset_argument = 0;
  memset.memset_value = 0xAB;
  memset.memset_bytes = E("n * 4 - 64");
  RecipeStep dependent = recipe.steps[0];
  dependent.programmatic_dependent_launch = true;
  dependent.launch.grid[0] = E("n / 4096");
  recipe.steps = {dependent, memset, dependent, dependent};
  const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(recipe, {});
  ASSERT_THAT(plan, IsOk());
  PlanAnswers answers;
  for (const int64_t n : {-1, 0, 15, 16, 17, 4096, 10000}) {
    for (const uint64_t partial : {0x0, 0x300000}) {
      for (const uint64_t once : {0x0, 0x400000}) {
        ExpectAgrees(*plan, {},
                     {.sizes = {n},
                      .buffers = {{.address = 0x100000}, {.address = 0x200000}},
                      .scratch = {partial, once}},
                     answers);
      }
    }
  }
  EXPECT_GT(answers.resolved, 4);
}

TEST(LaunchPlanTest, TensorMapsAgree) {
  LaunchRecipe recipe = CopyRecipe();
  RecipeTensorMap map;
  map.buffer = "src";
  map.dims = {E("64"), E("n / 64")};
  map.strides_bytes = {E("64 * 4")};
  map.box = {E("32"), E("min(n, 300)")};
  recipe.arguments.push_back({"map", map});
  map.element_strides = {E("1"), E("n % 9")};
  recipe.arguments.push_back({"strided", map});
  map.box.pop_back();
  recipe.arguments.push_back({"ill_shaped", map});
  recipe.steps[0].arguments = {3, 0};
  recipe.steps.push_back(recipe.steps[0]);
  recipe.steps[1].arguments = {4, 3};
  recipe.steps[1].when = E("n > 128");
  recipe.steps.push_back(recipe.steps[0]);
  recipe.steps[2].arguments = {5};
  recipe.steps[2].when = E("n == 192");
  const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(recipe, {});
  ASSERT_THAT(plan, IsOk());
  PlanAnswers answers;
  for (const int64_t n : {0, 32, 64, 128, 136, 192, 256, 299, 4096}) {
    for (const uint64_t src : {0x0, 0x200000}) {
      ExpectAgrees(*plan, {}, {.sizes = {n}, .buffers = {{.address = 0x100000}, {.address = src}}},
                   answers);
    }
  }
  EXPECT_GT(answers.resolved, 3);
}

TEST(LaunchPlanTest, DeviceFactsAreFoldedIn) {
  LaunchRecipe recipe = CopyRecipe();
  recipe.steps[0].launch.grid[0] = E("min(ceil_div(n, 1024), 2 * device.sm_count)");
  EXPECT_THAT(LaunchPlan::Create(recipe, {}).status(),
              StatusIs(kUnimplemented, HasSubstr("mentions a name without a value")));
  const SizeBindings facts{{"device.sm_count", 3}};
  const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(recipe, facts);
  ASSERT_THAT(plan, IsOk());
  PlanAnswers answers;
  for (const int64_t n : {0, 1024, 4096, 1 << 20}) {
    ExpectAgrees(*plan, facts,
                 {.sizes = {n}, .buffers = {{.address = 0x1000000}, {.address = 0x2000000}}},
                 answers);
  }
  EXPECT_EQ(answers.resolved, 4);
}

TEST(LaunchPlanTest, RecipesBeyondItsBoundsHaveNoPlan) {
  LaunchRecipe many = CopyRecipe();
  for (int i = 0; i < 64; ++i) {
    many.arguments.push_back({absl::StrCat("a", i), ComputedScalar(DataType::kI32, "1")});
  }
  EXPECT_THAT(LaunchPlan::Create(many, {}).status(),
              StatusIs(kUnimplemented, HasSubstr("67 arguments, a plan holds 64")));
  LaunchRecipe steps = CopyRecipe();
  while (steps.steps.size() < 9) steps.steps.push_back(steps.steps[0]);
  EXPECT_THAT(LaunchPlan::Create(steps, {}).status(),
              StatusIs(kUnimplemented, HasSubstr("9 steps, a plan holds 8")));
  LaunchRecipe twice = CopyRecipe();
  twice.arguments[1].name = "dst";
  EXPECT_THAT(LaunchPlan::Create(twice, {}).status(),
              StatusIs(kUnimplemented, HasSubstr("two arguments are named 'dst'")));
  LaunchRecipe fails = CopyRecipe();
  fails.guards = {E("n > 0 || 1 / 0 > 0")};
  EXPECT_THAT(LaunchPlan::Create(fails, {}).status(), StatusIs(kUnimplemented, HasSubstr("zero")));
}

TEST(LaunchPlanTest, ArgumentsByPositionAreTheSameByName) {
  LaunchRecipe recipe = RmsNormRecipe();
  recipe.arguments.push_back({"tmp", RecipeScratch{.bytes = E("16")}});
  recipe.arguments.push_back({"unused", RecipeScratch{.bytes = E("16")}});
  const LaunchNames names = NamesOf(recipe);
  const int64_t shape[] = {7, 4096}, strides[] = {4096, 1};
  const OwnedInputs inputs{
      .sizes = {7},
      .buffers = {{.address = 16, .shape = shape, .strides = strides, .rank = 2},
                  {.address = 32, .strides = strides, .rank = 2},
                  {}},
      .scalars = {0.5},
      .scratch = {48, 0}};
  const LaunchArguments arguments = ArgumentsOf(names, inputs.get());
  EXPECT_EQ(arguments.sizes, (SizeBindings{{"rows", 7}}));
  EXPECT_THAT(arguments.buffers.at("y").shape, ElementsAre(7, 4096));
  EXPECT_THAT(arguments.buffers.at("y").strides, ElementsAre(4096, 1));
  EXPECT_EQ(arguments.buffers.at("x").address, 32u);
  EXPECT_THAT(arguments.buffers.at("x").shape, IsEmpty());
  EXPECT_EQ(arguments.buffers.at("weight").address, 0u);
  EXPECT_EQ(arguments.scalars, (std::map<std::string, double>{{"eps", 0.5}}));
  EXPECT_EQ(arguments.scratch, (std::map<std::string, uint64_t>{{"tmp", 48}}));
}

}  // namespace
}  // namespace hone
