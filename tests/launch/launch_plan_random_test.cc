// Plans of random recipes on random launches, each held against the launch by name.
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/launch/plan_oracle.h"
#include "tests/launch/recipes.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

const SizeBindings kRandomFacts{{"device.sm_count", 132}, {"device.warp_size", 32}};

class RandomLaunches {
 public:
  explicit RandomLaunches(uint64_t seed) : random_(seed) {}

  LaunchRecipe Recipe() {
    LaunchRecipe recipe;
    recipe.dynamic_sizes = {"a", "b"};
    const int buffers = Below(4) + 1;
    for (int i = 0; i < buffers; ++i) {
      recipe.arguments.push_back({absl::StrCat("buffer", i), Buffer(buffers)});
    }
    recipe.arguments.push_back({"s", RecipeScalar{.type = Type(), .value = std::nullopt}});
    recipe.arguments.push_back({"f", RecipeScalar{.type = Type(), .value = std::nullopt}});
    recipe.arguments.push_back({"c", RecipeScalar{.type = Type(), .value = Number()}});
    if (Below(2) == 0) {
      recipe.arguments.push_back(
          {"scratch",
           RecipeScratch{.bytes = Number(), .zeroed = static_cast<ScratchZeroed>(Below(3))}});
    }
    if (Below(2) == 0) recipe.arguments.push_back({"map", TensorMap()});
    std::shuffle(recipe.arguments.begin(), recipe.arguments.end(), random_);
    const int steps = Below(3) + 1;
    for (int i = 0; i < steps; ++i) recipe.steps.push_back(Step(recipe));
    for (int i = Below(3); i > 0; --i) recipe.guards.push_back(Condition());
    return recipe;
  }

  // Of shapes and strides that mostly fit; they live until the next call.
  OwnedInputs Inputs(const LaunchRecipe& recipe) {
    OwnedInputs inputs;
    inputs.sizes = {Size(), Size()};
    for (const std::string& name : NamesOf(recipe).scalars) {
      (void)name;
      inputs.scalars.push_back(Scalar());
    }
    SizeBindings sizes{{"a", inputs.sizes[0]}, {"b", inputs.sizes[1]}};
    sizes.insert(kRandomFacts.begin(), kRandomFacts.end());
    lists_.clear();
    for (const RecipeArgument& argument : recipe.arguments) {
      if (const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind)) {
        PlanBuffer given{.address = Address()};
        given.rank = static_cast<int>(buffer->shape.size()) - (Below(12) == 0 ? 1 : 0);
        if (Below(2) == 0) given.shape = List(buffer->shape, sizes);
        if (Below(2) == 0) given.strides = List(buffer->strides, sizes);
        inputs.buffers.push_back(given);
      } else if (std::holds_alternative<RecipeScratch>(argument.kind)) {
        inputs.scratch.push_back(Below(4) == 0 ? 0 : 0x900000);
      }
    }
    return inputs;
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }

  DataType Type() { return static_cast<DataType>(Below(15) + 1); }

  int64_t Size() {
    constexpr int64_t sizes[] = {-1, int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 62,
                                 std::numeric_limits<int64_t>::max()};
    return Below(10) == 0 ? sizes[Below(5)] : Below(3) == 0 ? Below(3) : Below(2000);
  }

  double Scalar() {
    constexpr double scalars[] = {-1, 0.5, 1e30, 0x1p63, 300, 70000};
    const int kind = Below(12);
    if (kind == 0) return std::nan("");
    return kind < 4 ? scalars[Below(6)] : Below(100);
  }

  uint64_t Address() {
    const int kind = Below(12);
    if (kind == 0) return 0;
    if (kind == 1) return ~uint64_t{0} - 15;
    if (kind < 4) return 0x100000 + static_cast<uint64_t>(Below(64));
    // Far enough apart for most shapes, and often the same.
    return static_cast<uint64_t>(Below(6) + 1) << 28;
  }

  // The values of an argument's own list, now and then with a wrong one.
  const int64_t* List(const std::vector<Expression>& list, const SizeBindings& sizes) {
    std::vector<int64_t>& values = lists_.emplace_back();
    for (const Expression& e : list) values.push_back(e.Evaluate(sizes).value_or(7));
    values.push_back(1);
    if (Below(8) == 0) values[static_cast<size_t>(Below(static_cast<int>(values.size())))] ^= 1;
    return values.data();
  }

  Expression Leaf() {
    constexpr int64_t constants[] = {0, 1, 2, 4, 16, 32, 64, 256, -3, 1000};
    const int kind = Below(10);
    if (kind < 2) return Expression::Variable("a");
    if (kind < 4) return Expression::Variable("b");
    if (kind == 4) return Expression::Variable("s");
    if (kind == 5) return Expression::Variable("device.sm_count");
    return Expression::Constant(constants[Below(10)]);
  }

  Expression Any(int depth) {
    using Operator = Expression::Op;
    constexpr Operator ops[] = {
        Operator::kAdd,     Operator::kSub, Operator::kMul, Operator::kDiv,     Operator::kMod,
        Operator::kCeilDiv, Operator::kMin, Operator::kMax, Operator::kAlignUp, Operator::kSelect,
        Operator::kLog2,    Operator::kNeg, Operator::kEq,  Operator::kLt,      Operator::kAnd,
        Operator::kOr,      Operator::kNot};
    if (depth == 0 || Below(3) == 0) return Leaf();
    const Operator op = ops[Below(17)];
    const int operands = op == Operator::kSelect ? 3
                         : op == Operator::kLog2 || op == Operator::kNeg || op == Operator::kNot
                             ? 1
                             : 2;
    std::vector<Expression> list;
    for (int i = 0; i < operands; ++i) list.push_back(Any(depth - 1));
    return Expression::Make(op, std::move(list)).value();
  }

  // Mostly sensible: 1 to a few hundred.
  Expression Number() {
    switch (Below(6)) {
      case 0:
        return Any(2);
      case 1:
        return E("a");
      case 2:
        return E("ceil_div(b, 16)");
      case 3:
        return E("min(a, 2 * device.sm_count)");
      default:
        return Expression::Constant(int64_t{1} << Below(6));
    }
  }
  Expression Condition() {
    switch (Below(4)) {
      case 0:
        return Any(3);
      case 1:
        return E("a % 4 == 0 || b > 8");
      case 2:
        return E("s >= 0 && s < 1000");
      default:
        return E("a >= 0");
    }
  }

  RecipeBuffer Buffer(int buffers) {
    RecipeBuffer buffer;
    buffer.dtype = Type();
    const int rank = Below(4);
    for (int i = 0; i < rank; ++i) buffer.shape.push_back(Number());
    for (int i = 0; i < rank; ++i) {
      buffer.strides.push_back(i + 1 == rank ? Expression::Constant(1) : Number());
    }
    buffer.access = static_cast<Access>(Below(3));
    constexpr int64_t alignments[] = {1, 2, 4, 16, 128, 12, 0};
    buffer.alignment_bytes = alignments[Below(7)];
    if (Below(2) == 0) buffer.may_alias = {absl::StrCat("buffer", Below(buffers))};
    buffer.optional = Below(4) == 0;
    return buffer;
  }

  RecipeTensorMap TensorMap() {
    RecipeTensorMap map;
    map.buffer = "buffer0";
    const int rank = Below(5) + 1;
    for (int i = 0; i < rank; ++i) {
      map.dims.push_back(Number());
      map.box.push_back(Number());
      if (i > 0) map.strides_bytes.push_back(Number());
    }
    if (Below(3) == 0) map.element_strides.assign(static_cast<size_t>(rank), E("2"));
    return map;
  }

  RecipeStep Step(const LaunchRecipe& recipe) {
    RecipeStep step;
    const int arguments = static_cast<int>(recipe.arguments.size());
    if (Below(3) == 0) step.when = Condition();
    if (Below(4) == 0) {
      step.memset_argument = Below(arguments + 1);
      step.memset_value = Below(256);
      if (Below(2) == 0) step.memset_bytes = Number();
      return step;
    }
    step.symbol = absl::StrCat("kernel", Below(3));
    for (size_t axis = 0; axis < 3; ++axis) {
      if (Below(2) == 0) step.launch.grid[axis] = Number();
      if (Below(3) == 0) step.launch.block[axis] = Number();
      if (Below(6) == 0) step.launch.cluster[axis] = E("min(a, 2)");
    }
    if (Below(3) == 0) step.launch.dynamic_shared_bytes = Number();
    for (int i = Below(6); i > 0; --i) step.arguments.push_back(Below(arguments));
    step.programmatic_dependent_launch = Below(2) == 0;
    return step;
  }

  std::mt19937_64 random_;
  std::vector<std::vector<int64_t>> lists_;
};

TEST(LaunchPlanRandomTest, RandomRecipesGiveTheSameAnswersAndNumbers) {
  PlanAnswers answers;
  int planned = 0;
  for (uint64_t seed = 0; seed < 1500 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomLaunches launches(seed);
    const LaunchRecipe recipe = launches.Recipe();
    const absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(recipe, kRandomFacts);
    // Expressions that fail for every launch, and floating-point scalars in larger ones.
    if (!plan.ok()) continue;
    ++planned;
    for (int i = 0; i < 20; ++i) {
      const OwnedInputs inputs = launches.Inputs(recipe);
      ExpectAgrees(*plan, kRandomFacts, inputs, answers);
    }
  }
  // Enough of each answer to mean something.
  EXPECT_GT(planned, 500);
  EXPECT_GT(answers.accepted, answers.launches / 20);
  EXPECT_GT(answers.resolved, answers.launches / 20);
  EXPECT_LT(answers.resolved, answers.launches);
}

}  // namespace
}  // namespace hone
