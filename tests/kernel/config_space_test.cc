#include "runtime/kernel/config_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/specs.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ConfigSpace SpaceOf(const KernelTemplatePtr& made, const std::string& problem,
                    const std::string& architecture = "sm_90a", const DeviceFacts& facts = {}) {
  auto space = ConfigSpace::Create(made, ProblemOf(*made, problem), architecture, facts);
  EXPECT_TRUE(space.ok()) << space.status();
  return *std::move(space);
}

std::vector<std::string> Texts(const ConfigSpace& space) {
  std::vector<std::string> texts;
  space.ForEachValid([&](const Config& config) {
    texts.push_back(config.ToString());
    return true;
  });
  return texts;
}

TEST(ConfigTest, PrintsInDeclarationOrderAndReadsItBack) {
  const Config config({{"XBLOCK", 256}, {"ALIGN", -1}, {"VEC", 4}});
  EXPECT_EQ(config.ToString(), "XBLOCK=256 ALIGN=-1 VEC=4");
  EXPECT_THAT(Config::Parse(config.ToString()), IsOkAndHolds(config));
  EXPECT_EQ(config.value("VEC"), 4);
}

TEST(ConfigTest, RefusesWhatIsNotNameAndInteger) {
  EXPECT_THAT(Config::Parse("A=1 B"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"B\"")));
  EXPECT_THAT(Config::Parse("A=x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"A=x\"")));
  EXPECT_THAT(Config::Parse("A=1 A=2"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(Config::Parse(""), IsOkAndHolds(Config()));
}

TEST(ConfigSpaceTest, VisitsInDeclarationOrderWithTheLastTunableFastest) {
  const ConfigSpace space = SpaceOf(SimpleTemplate(), "n=1024");
  EXPECT_THAT(Texts(space),
              ElementsAre("XBLOCK=64 VEC=1", "XBLOCK=64 VEC=4", "XBLOCK=128 VEC=1",
                          "XBLOCK=128 VEC=4", "XBLOCK=256 VEC=1", "XBLOCK=256 VEC=4"));
}

TEST(ConfigSpaceTest, IndexAndPointAreInverse) {
  const ConfigSpace space = SpaceOf(SimpleTemplate(), "n=1024");
  ASSERT_EQ(space.product_size(), 6);
  for (int64_t i = 0; i < space.product_size(); ++i) EXPECT_EQ(space.IndexOf(space.At(i)), i);
  EXPECT_EQ(space.At(3).ToString(), "XBLOCK=128 VEC=4");
  EXPECT_EQ(space.IndexOf(ConfigOf("XBLOCK=100 VEC=4")), -1);
}

TEST(ConfigSpaceTest, ConstraintsUseTypesSizesAndDeviceFacts) {
  const auto made =
      SimpleTemplate({.constraints = {"VEC * sizeof(T) <= 8 || T == F32", "n % VEC == 0",
                                      "XBLOCK <= device.max_threads_per_block"}});
  EXPECT_THAT(Texts(SpaceOf(made, "T=F16 n=64", "sm_90a", {{"device.max_threads_per_block", 64}})),
              ElementsAre("XBLOCK=64 VEC=1", "XBLOCK=64 VEC=4"));
  EXPECT_THAT(Texts(SpaceOf(made, "T=F32 n=63", "sm_90a", {{"device.max_threads_per_block", 64}})),
              ElementsAre("XBLOCK=64 VEC=1"));
  // Facts that nobody gave are checked at launch.
  EXPECT_EQ(Texts(SpaceOf(made, "T=F32 n=64")).size(), 6u);
}

TEST(ConfigSpaceTest, AMillionPointsWithATightConstraintVisitOnlyTheValidOnes) {
  TemplateSpec spec = SimpleSpec({});
  spec.base.tunables.clear();
  std::vector<int64_t> ten;
  for (int64_t i = 1; i <= 10; ++i) ten.push_back(i);
  for (const char* name : {"A", "B", "C", "D", "XBLOCK", "VEC"}) {
    spec.base.tunables.push_back(MakeTunable(name, ten));
  }
  // Each names the tunables up to one depth; were they checked at the leaves only, or were there
  // more visits than valid points, this would be a million evaluations.
  spec.base.constraints = {Parsed("A == 3"), Parsed("B == A + 1"), Parsed("C == A + B"),
                           Parsed("D == C - B"), Parsed("XBLOCK == 2")};
  const auto made = Made(std::move(spec));
  const ConfigSpace space = SpaceOf(made, "n=1");
  EXPECT_EQ(space.product_size(), 1'000'000);
  int64_t visits = 0;
  space.ForEachValid([&](const Config& config) {
    ++visits;
    EXPECT_TRUE(space.Validate(config).ok()) << config.ToString();
    return true;
  });
  EXPECT_EQ(visits, 10);  // VEC alone is free
}

TEST(ConfigSpaceTest, PruningCutsWholeRegions) {
  // 64 tunables of 64 values: nothing but pruning ends this within the test's time.
  TemplateSpec spec = SimpleSpec({});
  std::vector<int64_t> values;
  for (int64_t i = 1; i <= 64; ++i) values.push_back(i);
  for (int i = 0; i < 62; ++i) {
    spec.base.tunables.push_back(MakeTunable("T" + std::to_string(i), values));
    spec.base.constraints.push_back(Parsed("T" + std::to_string(i) + " == 64"));
  }
  const auto made = Made(std::move(spec));
  const ConfigSpace space = SpaceOf(made, "n=1");
  EXPECT_EQ(space.product_size(), int64_t{1} << 62);  // saturates
  EXPECT_EQ(Texts(space).size(), 6u);
}

TEST(ConfigSpaceTest, AWalkThatFindsNothingGivesUp) {
  // Only the last tunable decides, so that nothing can be pruned: 64^8 points and none is valid.
  TemplateSpec spec = SimpleSpec({});
  std::vector<int64_t> values;
  for (int64_t i = 1; i <= 64; ++i) values.push_back(i);
  for (int i = 0; i < 8; ++i)
    spec.base.tunables.push_back(MakeTunable("Q" + std::to_string(i), values));
  spec.base.constraints = {Parsed("Q7 > 64")};
  const auto made = Made(std::move(spec));
  const ConfigSpace space = SpaceOf(made, "n=1");
  EXPECT_FALSE(space.ForEachValid([](const Config&) { return true; }, 10'000));
  EXPECT_TRUE(SpaceOf(SimpleTemplate(), "n=1").ForEachValid([](const Config&) { return true; }));
}

TEST(ConfigSpaceTest, AVisitorThatReturnsFalseStopsTheWalk) {
  const ConfigSpace space = SpaceOf(SimpleTemplate(), "n=1024");
  int visits = 0;
  space.ForEachValid([&](const Config&) { return ++visits < 2; });
  EXPECT_EQ(visits, 2);
}

TEST(ConfigSpaceTest, ValidConfigsRefusesToCollectMoreThanTheLimit) {
  const ConfigSpace space = SpaceOf(SimpleTemplate(), "n=1024");
  EXPECT_THAT(space.ValidConfigs(6), IsOkAndHolds(testing::SizeIs(6)));
  EXPECT_THAT(space.ValidConfigs(5), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("5")));
}

TEST(ConfigSpaceTest, ValidateNamesTheConstraintAsWrittenWithItsValues) {
  const auto made = SimpleTemplate({.constraints = {"VEC * sizeof(T) <= 8"}});
  const ConfigSpace space = SpaceOf(made, "T=F32 n=64");
  EXPECT_THAT(space.Validate(ConfigOf("XBLOCK=64 VEC=4")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::AllOf(HasSubstr("VEC * sizeof(T) <= 8"), HasSubstr("VEC=4"),
                                      HasSubstr("T=F32"))));
  EXPECT_THAT(space.Validate(ConfigOf("XBLOCK=64 VEC=1")), IsOk());
}

TEST(ConfigSpaceTest, ValidateTellsForeignConfigsFromInvalidOnes) {
  const ConfigSpace space = SpaceOf(SimpleTemplate(), "n=64");
  EXPECT_THAT(space.Validate(ConfigOf("XBLOCK=65 VEC=1")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("64, 128, 256")));
  EXPECT_THAT(space.Validate(ConfigOf("XBLOCK=64")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("XBLOCK, VEC")));
  EXPECT_THAT(space.Validate(ConfigOf("XBLOCK=64 VEC=1 OTHER=1")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("OTHER")));
}

TEST(ConfigSpaceTest, AConstraintThatCannotBeEvaluatedRejectsTheConfig) {
  const auto made = SimpleTemplate({.constraints = {"64 / (VEC - 1) > 1"}});
  const ConfigSpace space = SpaceOf(made, "n=64");
  EXPECT_THAT(space.Validate(ConfigOf("XBLOCK=64 VEC=1")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("fails")));
  EXPECT_EQ(Texts(space).size(), 3u);
}

TEST(ConfigSpaceTest, DefaultThatIsInvalidForTheProblemIsAnErrorThatSaysWhy) {
  const auto made = SimpleTemplate({.xblock = {128, 64}, .constraints = {"XBLOCK <= n"}});
  EXPECT_THAT(SpaceOf(made, "n=128").Default(), IsOkAndHolds(ConfigOf("XBLOCK=128 VEC=1")));
  EXPECT_THAT(SpaceOf(made, "n=64").Default(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::AllOf(HasSubstr("XBLOCK=128"), HasSubstr("n=64"))));
}

TEST(ConfigSpaceTest, TunablesDifferByArchitecture) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    spec.base.tunables[0].per_architecture = {
        {.architectures = {"cpu"}, .values = {32}, .default_value = 32},
        {.architectures = {"sm_90"}, .values = {256, 512}, .default_value = 512}};
  }));
  EXPECT_EQ(SpaceOf(made, "n=1", "sm_90a").Default()->ToString(), "XBLOCK=512 VEC=1");
  EXPECT_EQ(SpaceOf(made, "n=1", "cpu").product_size(), 2);
  EXPECT_EQ(SpaceOf(made, "n=1", "sm_80").product_size(), 6);
}

TEST(ConfigSpaceTest, VariantsReplaceTheSpaceOfTheirArchitecture) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    ArchitectureBody variant;
    variant.architectures = {"sm_90a"};
    variant.body = spec.base;
    variant.body.constraints = {Parsed("VEC == 4")};
    spec.variants.push_back(variant);
  }));
  EXPECT_EQ(Texts(SpaceOf(made, "n=1", "sm_90a")).size(), 3u);
  EXPECT_EQ(Texts(SpaceOf(made, "n=1", "sm_90")).size(), 6u);
}

TEST(ConfigSpaceTest, PriorsKeepTheirOrderAndLeaveOutWhatDoesNotApply) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    const auto prior = [](std::map<std::string, int64_t> config, const std::string& when,
                          std::vector<std::string> architectures) {
      Prior result;
      result.config = std::move(config);
      if (!when.empty()) result.when = Parsed(when);
      result.architectures = std::move(architectures);
      return result;
    };
    spec.priors = {prior({{"XBLOCK", 256}, {"VEC", 4}}, "", {}),
                   prior({{"XBLOCK", 128}}, "T == F16", {}),
                   prior({{"VEC", 4}}, "", {"sm_80"}),
                   prior({{"XBLOCK", 64}, {"VEC", 1}}, "", {}),  // the default
                   prior({{"XBLOCK", 128}, {"VEC", 4}}, "n > 100", {"sm_90"}),
                   prior({{"VEC", 4}, {"XBLOCK", 256}}, "", {})};  // repeats the first
  }));
  const std::vector<Config> priors = SpaceOf(made, "T=F32 n=1024").Priors();
  ASSERT_EQ(priors.size(), 2u);
  EXPECT_EQ(priors[0].ToString(), "XBLOCK=256 VEC=4");
  EXPECT_EQ(priors[1].ToString(), "XBLOCK=128 VEC=4");
  EXPECT_EQ(SpaceOf(made, "T=F16 n=64").Priors().size(), 2u);
}

TEST(ConfigSpaceTest, ATemplateWithoutTunablesHasOnePoint) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    spec.base.tunables.clear();
    spec.base.steps[0].entry = "copy<${T}>";
    spec.base.steps[0].launch.shape.grid[0] = Parsed("n");
    spec.base.steps[0].launch.shape.block[0] = Parsed("64");
    BufferOf(spec.base, 0).alignment_bytes.reset();
    BufferOf(spec.base, 1).alignment_bytes.reset();
  }));
  const ConfigSpace space = SpaceOf(made, "n=1");
  EXPECT_EQ(space.product_size(), 1);
  EXPECT_THAT(Texts(space), ElementsAre(""));
}

TEST(ConfigSpaceTest, AnArchitectureBelowTheRequirementsIsRefused) {
  const auto made =
      Made(Changed([](TemplateSpec& spec) { spec.requirements.min_architecture = "sm_90"; }));
  EXPECT_THAT(ConfigSpace::Create(made, ProblemOf(*made, "n=1"), "sm_80", {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("sm_90")));
}

}  // namespace
}  // namespace hone
