#include "runtime/kernel/prebuilt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/kernel/template_warnings.h"
#include "tests/kernel/specs.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// An ELF header for a machine, and something to tell binaries apart.
std::string Elf(int machine, const std::string& body) {
  std::string bytes(64, '\0');
  bytes.replace(0, 4,
                "\x7f"
                "ELF");
  bytes[18] = static_cast<char>(machine);
  return bytes + body;
}
constexpr int kCuda = 190;
constexpr int kX86 = 62;

PrebuiltCandidate Candidate(const std::string& file, const std::string& architecture,
                            int64_t xblock, int64_t vec, const std::string& symbol) {
  return {.file = file,
          .architecture = architecture,
          .config = {{"XBLOCK", xblock}, {"VEC", vec}},
          .symbols = {symbol}};
}

TemplateSpec PrebuiltSpec() {
  return Changed([](TemplateSpec& spec) {
    spec.prebuilt = {Candidate("b.cubin", "sm_90a", 256, 4, "kernel_b"),
                     Candidate("a.cubin", "sm_90", 128, 1, "kernel_a"),
                     Candidate("c.so", "cpu", 64, 1, "kernel_c")};
    spec.files.push_back({"a.cubin", Elf(kCuda, "a")});
    spec.files.push_back({"b.cubin", Elf(kCuda, "b")});
    spec.files.push_back({"c.so", Elf(kX86, "c")});
  });
}

TEST(PrebuiltTest, TheSpaceHoldsOnlyConfigsWithABinary) {
  const auto made = Made(PrebuiltSpec());
  const auto space = ConfigSpace::Create(made, ProblemOf(*made, "n=64"), "sm_90a", {});
  ASSERT_THAT(space, IsOk());
  const auto configs = space->ValidConfigs(10);
  ASSERT_THAT(configs, IsOk());
  ASSERT_EQ(configs->size(), 2u);
  EXPECT_EQ((*configs)[0].ToString(), "XBLOCK=128 VEC=1");  // declaration order, not as listed
  EXPECT_EQ((*configs)[1].ToString(), "XBLOCK=256 VEC=4");
  EXPECT_THAT(space->Validate(ConfigOf("XBLOCK=64 VEC=1")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no prebuilt binary")));
  // The declared default has no binary here: the first candidate stands for it.
  EXPECT_THAT(space->Default(), IsOkAndHolds(ConfigOf("XBLOCK=256 VEC=4")));
}

TEST(PrebuiltTest, ConstraintsStillApply) {
  TemplateSpec spec = PrebuiltSpec();
  spec.base.constraints = {Parsed("n % VEC == 0")};
  const auto made = Made(std::move(spec));
  const auto space = ConfigSpace::Create(made, ProblemOf(*made, "n=3"), "sm_90a", {});
  EXPECT_EQ(space->ValidConfigs(10)->size(), 1u);
  EXPECT_THAT(space->Default(), IsOkAndHolds(ConfigOf("XBLOCK=128 VEC=1")));
}

TEST(PrebuiltTest, ProgramAndRecipeAreTheCandidates) {
  const auto made = Made(PrebuiltSpec());
  const Problem problem = ProblemOf(*made, "n=64");
  const Config config = ConfigOf("XBLOCK=256 VEC=4");
  const auto program = InstantiateProgram(*made, problem, config, "sm_90a");
  ASSERT_THAT(program, IsOk());
  EXPECT_EQ(program->prebuilt_bytes, Elf(kCuda, "b"));
  EXPECT_THAT(program->prebuilt_symbols, ElementsAre("kernel_b"));
  EXPECT_TRUE(program->source.empty());
  EXPECT_TRUE(program->name_expressions.empty());
  const auto recipe = InstantiateRecipe(*made, problem, config, "sm_90a", {}, {});
  ASSERT_THAT(recipe, IsOk());
  EXPECT_EQ(recipe->steps[0].symbol, "kernel_b");
  // The reference is compiled as ever.
  EXPECT_THAT(InstantiateCheckProgram(*made, problem, "sm_90a")->name_expressions,
              ElementsAre("copy_reference<float>"));
}

TEST(PrebuiltTest, AConfigWithoutABinaryHasNoProgram) {
  const auto made = Made(PrebuiltSpec());
  EXPECT_THAT(
      InstantiateProgram(*made, ProblemOf(*made, "n=64"), ConfigOf("XBLOCK=64 VEC=1"), "sm_90a"),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no prebuilt binary")));
}

TEST(PrebuiltTest, TheArchitecturesOwnBinaryGoesBeforeThePlainOne) {
  TemplateSpec spec = PrebuiltSpec();
  spec.prebuilt.push_back(Candidate("b.cubin", "sm_90a", 128, 1, "special"));
  const auto made = Made(std::move(spec));
  EXPECT_THAT(FindPrebuilt(*made, ConfigOf("XBLOCK=128 VEC=1"), "sm_90a")->symbols,
              ElementsAre("special"));
  EXPECT_THAT(FindPrebuilt(*made, ConfigOf("XBLOCK=128 VEC=1"), "sm_90")->symbols,
              ElementsAre("kernel_a"));
  EXPECT_FALSE(FindPrebuilt(*made, ConfigOf("XBLOCK=256 VEC=4"), "sm_90").has_value());
  const auto space = ConfigSpace::Create(made, ProblemOf(*made, "n=64"), "sm_90a", {});
  EXPECT_EQ(space->ValidConfigs(10)->size(), 2u);
}

TEST(PrebuiltTest, ArchitecturesWithoutABinaryAreRefused) {
  const auto made = Made(PrebuiltSpec());
  EXPECT_THAT(made->SupportsArchitecture("sm_80"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no prebuilt binary")));
  EXPECT_THAT(made->SupportsArchitecture("compute_90"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no prebuilt binary")));
  EXPECT_THAT(made->SupportsArchitecture("cpu"), IsOk());
}

TEST(PrebuiltTest, CandidatesAreCheckedAgainstTheTemplate) {
  const auto error = [](const std::function<void(TemplateSpec&)>& change) {
    TemplateSpec spec = PrebuiltSpec();
    change(spec);
    return KernelTemplate::Create(std::move(spec)).status();
  };
  const auto invalid = [](const std::string& text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(error([](TemplateSpec& s) { s.prebuilt[0].symbols = {}; }),
              invalid("prebuilt[0].symbols: 0 symbols for 1"));
  EXPECT_THAT(error([](TemplateSpec& s) { s.prebuilt[0].config.erase("VEC"); }),
              invalid("prebuilt[0].config: gives no value for VEC"));
  EXPECT_THAT(error([](TemplateSpec& s) { s.prebuilt[0].config["VEC"] = 3; }),
              invalid("prebuilt[0].config: VEC: 3"));
  EXPECT_THAT(error([](TemplateSpec& s) { s.prebuilt[0].config["Q"] = 3; }), invalid("\"Q\""));
  EXPECT_THAT(error([](TemplateSpec& s) { s.prebuilt.push_back(s.prebuilt[0]); }),
              invalid("prebuilt[3].config: another binary"));
  EXPECT_THAT(error([](TemplateSpec& s) { s.files[2].content = ".version 9.0\n.target sm_90\n"; }),
              invalid("prebuilt[0].file: is PTX"));
  EXPECT_THAT(error([](TemplateSpec& s) { s.files[2].content = "garbage"; }),
              invalid("prebuilt[0].file: is not a cubin"));
  EXPECT_THAT(error([](TemplateSpec& s) { s.files[2].content = Elf(kX86, ""); }),
              invalid("prebuilt[0].file: is HOST_ELF"));
  EXPECT_THAT(error([](TemplateSpec& s) { s.files.pop_back(); }), invalid("c.so"));
}

TEST(PrebuiltTest, WithoutAReferenceNoSourceIsNeeded) {
  TemplateSpec spec = PrebuiltSpec();
  spec.checks.clear();
  spec.base.source.clear();
  spec.files.erase(spec.files.begin());
  const auto made = Made(std::move(spec));
  const Problem problem = ProblemOf(*made, "n=64");
  const auto program = InstantiateCheckProgram(*made, problem, "sm_90a");
  ASSERT_THAT(program, IsOk());
  EXPECT_TRUE(program->name_expressions.empty());
  EXPECT_THAT(InstantiateCheckPlan(*made, problem, "sm_90a", {}, {}), IsOk());
}

TEST(TemplateWarningsTest, AGoodTemplateHasNone) {
  EXPECT_THAT(TemplateWarnings(SimpleTemplate()), ElementsAre());
}

TEST(TemplateWarningsTest, TellsWhenNoConfigAcceptsEveryDeclaredInput) {
  EXPECT_THAT(TemplateWarnings(SimpleTemplate({.vec = {2, 4}})),
              testing::Contains(HasSubstr("must be aligned to 8 bytes")));
  EXPECT_THAT(TemplateWarnings(SimpleTemplate({.constraints = {"n % XBLOCK == 0"}})),
              testing::Contains(HasSubstr("depends on n")));
  EXPECT_THAT(TemplateWarnings(SimpleTemplate({.constraints = {"n % VEC == 0"}})), ElementsAre());
}

TEST(TemplateWarningsTest, TellsAboutDefaultsAndReferences) {
  EXPECT_THAT(TemplateWarnings(SimpleTemplate({.reference = false})),
              ElementsAre(HasSubstr("no reference")));
  EXPECT_THAT(
      TemplateWarnings(SimpleTemplate({.vec = {4, 1}, .constraints = {"VEC * sizeof(T) <= 8"}})),
      ElementsAre(testing::AllOf(HasSubstr("default config"), HasSubstr("T=F32"))));
  EXPECT_THAT(TemplateWarnings(SimpleTemplate({.constraints = {"VEC > 4"}})),
              testing::Contains(HasSubstr("no valid config")));
}

}  // namespace
}  // namespace hone
