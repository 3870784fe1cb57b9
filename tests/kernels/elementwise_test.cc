// Operator chains in problems, keys, programs and recipes, on the catalog's template that has one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/kernel/keys.h"
#include "runtime/kernel/template_warnings.h"
#include "tests/kernels/kernel_samples.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

KernelTemplatePtr Elementwise() { return FindTemplate(TheCatalog(), "elementwise"); }

absl::StatusOr<Problem> ProblemWith(Values values) {
  values.insert({{"rows", int64_t{64}}, {"cols", int64_t{256}}});
  return Problem::Create(*Elementwise(), values);
}

Problem ProblemOfChain(const std::string& f, Values values = {}) {
  values["f"] = f;
  const absl::StatusOr<Problem> problem = ProblemWith(std::move(values));
  EXPECT_THAT(problem, IsOk()) << f;
  return problem.value_or(Problem());
}

Program ProgramOf(const Problem& problem) {
  const ConfigSpace space = ConfigSpace::Create(Elementwise(), problem, "sm_90a", {}).value();
  return InstantiateProgram(*Elementwise(), problem, space.Default().value(), "sm_90a").value();
}

LaunchRecipe RecipeOf(const Problem& problem, const std::string& config) {
  std::map<std::string, std::string> lowered;
  for (const std::string& name : ProgramOf(problem).name_expressions) lowered[name] = "kernel";
  const Config one = Config::Parse(config).value();
  const Program program = InstantiateProgram(*Elementwise(), problem, one, "sm_90a").value();
  for (const std::string& name : program.name_expressions) lowered[name] = "kernel";
  const auto recipe = InstantiateRecipe(*Elementwise(), problem, one, "sm_90a", {}, lowered);
  EXPECT_THAT(recipe, IsOk());
  return recipe.value_or(LaunchRecipe());
}

constexpr char kWide[] = "XBLOCK=256 VEC=8 ITEMS=1 CACHE=0";

const RecipeArgument& Argument(const LaunchRecipe& recipe, const std::string& name) {
  for (const RecipeArgument& argument : recipe.arguments) {
    if (argument.name == name) return argument;
  }
  ADD_FAILURE() << "no argument " << name;
  return recipe.arguments.front();
}

const RecipeBuffer* BufferOf(const LaunchRecipe& recipe, const std::string& name) {
  return std::get_if<RecipeBuffer>(&Argument(recipe, name).kind);
}

std::string TuningKeyOf(const Problem& problem) {
  return TuningKey(*Elementwise(), problem, DeviceFingerprint(), "v2 cold").id();
}

TEST(ElementwiseTest, APresetItsExpressionAndOtherSpacingAreOneProblem) {
  const Values bf16 = {{"A", std::string("BF16")}};
  const Problem problem = ProblemOfChain("silu(a)*b", bf16);
  for (const char* text : {"swiglu", "silu(a) * b", " (silu( a ))*b"}) {
    EXPECT_EQ(ProblemOfChain(text, bf16), problem) << text;
    EXPECT_EQ(TuningKeyOf(ProblemOfChain(text, bf16)), TuningKeyOf(problem)) << text;
    EXPECT_EQ(ArtifactKey(ProgramOf(ProblemOfChain(text, bf16)), "").id(),
              ArtifactKey(ProgramOf(problem), "").id())
        << text;
  }
  // What records and keys show reads back.
  EXPECT_THAT(problem.ToString(), HasSubstr("f=silu(a)*b"));
  EXPECT_THAT(Problem::Parse(*Elementwise(), problem.ToString()), IsOkAndHolds(problem));
  const Problem compares = ProblemOfChain("where(a <= 0, b, where(a == b, a, b))");
  EXPECT_THAT(Problem::Parse(*Elementwise(), compares.ToString()), IsOkAndHolds(compares));
}

TEST(ElementwiseTest, LintHasNothingToSay) {
  EXPECT_THAT(TemplateWarnings(Elementwise()), testing::IsEmpty());
}

TEST(ElementwiseTest, OtherChainsHaveOtherKeys) {
  const Problem one = ProblemOfChain("silu(a)*b");
  const Problem other = ProblemOfChain("b*silu(a)");
  EXPECT_NE(TuningKeyOf(one), TuningKeyOf(other));
  EXPECT_NE(ArtifactKey(ProgramOf(one), "").id(), ArtifactKey(ProgramOf(other), "").id());
  EXPECT_THAT(TuningKey(*Elementwise(), one, DeviceFingerprint(), "").Canonical(),
              HasSubstr("param.f=silu(a)*b\n"));
}

TEST(ElementwiseTest, PresetsGiveOtherParametersUnlessTheCallerDoes) {
  const Problem bias = ProblemOfChain("add_bias_gelu");
  EXPECT_EQ(ToString(bias.values().at("B_SHAPE")), "row");
  EXPECT_EQ(ToString(ProblemOfChain("gelu_tanh(a+b)").values().at("B_SHAPE")), "full");
  const Problem full = ProblemOfChain("add_bias_gelu", {{"B_SHAPE", std::string("full")}});
  EXPECT_EQ(full, ProblemOfChain("gelu_tanh(a+b)"));
  EXPECT_EQ(ToString(ProblemOfChain("swiglu_quantize").values().at("OUT")), "F8E4M3");
}

TEST(ElementwiseTest, TypesAreThatOfTheFirstInputUnlessGiven) {
  const Problem problem =
      ProblemOfChain("swiglu", {{"A", std::string("F16")}, {"C", std::string("F32")}});
  EXPECT_EQ(ToString(problem.values().at("B")), "F16");
  EXPECT_EQ(ToString(problem.values().at("C")), "F32");
  EXPECT_EQ(ToString(problem.values().at("OUT")), "F16");
}

TEST(ElementwiseTest, WrongChainsAreRefusedWithTheColumn) {
  const auto error = [](const Value& f) { return ProblemWith({{"f", f}}).status(); };
  const auto invalid = [](const auto& matcher) {
    return StatusIs(absl::StatusCode::kInvalidArgument, matcher);
  };
  EXPECT_THAT(
      error(std::string("silu(a) * e")),
      invalid(HasSubstr("params.f: column 11: \"e\" is unknown; there are inputs a, b, c, d, "
                        "scale and scalars alpha, beta")));
  EXPECT_THAT(error(std::string("swish")), invalid(AllOf(HasSubstr("params.f: column 1"),
                                                         HasSubstr("presets are swiglu, geglu"))));
  EXPECT_THAT(error(std::string("a); asm(\"trap;")), invalid(HasSubstr("params.f: column 2")));
  EXPECT_THAT(error(int64_t{3}), invalid(HasSubstr("params.f: 3 is not an expression over a, b")));
  EXPECT_THAT(ProblemWith({}).status(),
              invalid(AllOf(HasSubstr("params.f: not given"), HasSubstr("swiglu"))));
}

TEST(ElementwiseTest, CallersGiveOnlyWhatTheChainReads) {
  const Problem problem = ProblemOfChain("silu(a)*c*beta", {{"A", std::string("BF16")}});
  const LaunchRecipe recipe = RecipeOf(problem, kWide);
  // The kernel takes all arguments in order; for what is not read it gets a null pointer or 0.
  EXPECT_EQ(recipe.arguments.size(), 10u);
  for (const char* absent : {"b", "d", "scale", "alpha"}) {
    const auto* zero = std::get_if<RecipeScalar>(&Argument(recipe, absent).kind);
    ASSERT_NE(zero, nullptr) << absent;
    EXPECT_EQ(zero->value, Expression::Constant(0)) << absent;
    EXPECT_EQ(zero->type, std::string(absent) == "alpha" ? DataType::kF32 : DataType::kU64);
  }
  EXPECT_NE(BufferOf(recipe, "a"), nullptr);
  EXPECT_NE(BufferOf(recipe, "c"), nullptr);
  EXPECT_FALSE(std::get<RecipeScalar>(Argument(recipe, "beta").kind).value.has_value());
  const CheckPlan plan = InstantiateCheckPlan(*Elementwise(), problem, "sm_90a", {}, {}).value();
  EXPECT_EQ(plan.inits.size(), 2u);
  EXPECT_THAT(plan.scalar_samples, ElementsAre(testing::Pair("beta", testing::_)));
  ASSERT_EQ(plan.chains.size(), 1u);
  EXPECT_EQ(plan.chains[0].chain, "silu(a)*c*beta");
  EXPECT_TRUE(plan.verifies());
  EXPECT_TRUE(plan.program.name_expressions.empty());
}

TEST(ElementwiseTest, WorkCountsWhatIsRead) {
  const auto bytes = [](const Problem& problem) {
    return RecipeOf(problem, kWide)
        .work_bytes.Evaluate(SizeBindings{{"rows", 10}, {"cols", 100}})
        .value();
  };
  const std::string bf16 = "BF16";
  EXPECT_EQ(bytes(ProblemOfChain("swiglu", {{"A", bf16}})), 3 * 2000);
  EXPECT_EQ(bytes(ProblemOfChain("relu(a)", {{"A", bf16}, {"OUT", std::string("F8E4M3")}})), 3000);
  EXPECT_EQ(bytes(ProblemOfChain("add_bias_gelu", {{"A", bf16}})), 2 * 2000 + 200);
  EXPECT_EQ(bytes(ProblemOfChain("a*b", {{"A", bf16}, {"B_SHAPE", std::string("column")}})), 4020);
}

TEST(ElementwiseTest, BroadcastInputsHaveTheirOwnShapes) {
  const Problem problem = ProblemOfChain("a*b+c*d", {{"B_SHAPE", std::string("row")},
                                                     {"C_SHAPE", std::string("column")},
                                                     {"D_SHAPE", std::string("scalar")}});
  const LaunchRecipe recipe = RecipeOf(problem, kWide);
  const auto shape = [&](const std::string& name) {
    std::string text;
    for (const Expression& extent : BufferOf(recipe, name)->shape) text += extent.ToString() + ";";
    return text;
  };
  EXPECT_EQ(shape("a"), "rows;cols;");
  EXPECT_EQ(shape("b"), "cols;");
  EXPECT_EQ(shape("c"), "rows;1;");
  EXPECT_EQ(shape("d"), "1;");
  EXPECT_EQ(BufferOf(recipe, "a")->alignment_bytes, 16);
  EXPECT_EQ(BufferOf(recipe, "b")->alignment_bytes, 4);
}

TEST(ElementwiseTest, InPlaceOnlyWhereElementsCoincide) {
  const auto aliases = [](const Problem& problem) {
    return BufferOf(RecipeOf(problem, kWide), "out")->may_alias;
  };
  EXPECT_THAT(aliases(ProblemOfChain("swiglu")), ElementsAre("a", "b"));
  EXPECT_THAT(aliases(ProblemOfChain("add_bias_gelu")), ElementsAre("a"));
  EXPECT_THAT(aliases(ProblemOfChain("swiglu", {{"OUT", std::string("BF16")}})), ElementsAre());
  EXPECT_THAT(aliases(ProblemOfChain("swiglu", {{"B", std::string("F16")}})), ElementsAre("a"));
}

}  // namespace
}  // namespace hone
