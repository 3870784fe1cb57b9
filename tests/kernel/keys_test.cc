#include "runtime/kernel/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/base/sha256.h"
#include "tests/kernel/specs.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Program Sample() {
  Program program;
  program.name = "copy.cu";
  program.source = "#include \"a.h\"\n";
  program.headers = {{"a.h", "#include \"b.h\"\n"}, {"b.h", "#define B 1\n"}};
  program.header_sets = {std::string(64, 'c')};
  program.options = {"-lineinfo", "-default-device"};
  program.defines = {{"X", "1"}};
  program.name_expressions = {"copy<float, 128>"};
  program.architecture = "sm_90a";
  return program;
}

using Ingredients = std::vector<std::pair<std::string, std::string>>;

Key KeyOf(Ingredients ingredients) { return Key(std::move(ingredients)); }

std::string IdOf(const std::function<void(Program&)>& change, const std::string& headers = "h") {
  Program program = Sample();
  change(program);
  return ArtifactKey(program, headers).id();
}

// scenarios P12 P15 P16
TEST(ArtifactKeyTest, EverythingTheBinaryDependsOnChangesTheKey) {
  const std::string key = IdOf([](Program&) {});
  EXPECT_NE(key, IdOf([](Program& p) { p.source += "\n"; }));
  EXPECT_NE(key, IdOf([](Program& p) { p.headers[1].content = "#define B 2\n"; }));
  EXPECT_NE(key, IdOf([](Program& p) { p.headers[0].name = "c.h"; }));
  EXPECT_NE(key, IdOf([](Program& p) { std::swap(p.headers[0], p.headers[1]); }));
  EXPECT_NE(key, IdOf([](Program& p) { p.header_sets.clear(); }));
  EXPECT_NE(key, IdOf([](Program& p) { p.options.pop_back(); }));
  EXPECT_NE(key, IdOf([](Program& p) { std::swap(p.options[0], p.options[1]); }));
  EXPECT_NE(key, IdOf([](Program& p) { p.defines[0].second = "2"; }));
  EXPECT_NE(key, IdOf([](Program& p) { p.architecture = "sm_86"; }));
  EXPECT_NE(key, IdOf([](Program& p) { p.name_expressions[0] = "copy<float, 256>"; }));
  EXPECT_NE(key, IdOf([](Program& p) { p.name_expressions.push_back("copy<float, 256>"); }));
  EXPECT_NE(key, IdOf([](Program&) {}, "headers of another toolkit"));
}

// scenario P16
TEST(ArtifactKeyTest, RevertingAHeaderFindsTheFirstKeyAgain) {
  const std::string key = IdOf([](Program&) {});
  Program program = Sample();
  program.headers[1].content = "#define B 2\n";
  EXPECT_NE(ArtifactKey(program, "h").id(), key);
  program.headers[1].content = "#define B 1\n";
  EXPECT_EQ(ArtifactKey(program, "h").id(), key);
}

// scenario P17
TEST(ArtifactKeyTest, NeitherDisplayNameNorEnvironmentEnterTheKey) {
  const std::string key = IdOf([](Program&) {});
  EXPECT_EQ(key, IdOf([](Program& p) { p.name = "/opt/cuda-13/copy.cu"; }));
  ::setenv("HOME", "/elsewhere", 1);
  ::setenv("CUDA_HOME", "/opt/cuda-13", 1);
  EXPECT_EQ(key, IdOf([](Program&) {}));
  EXPECT_THAT(ArtifactKey(Sample(), "h").Canonical(), testing::Not(HasSubstr("/opt")));
}

TEST(ArtifactKeyTest, FieldsDoNotRunIntoEachOther) {
  Program joined = Sample();
  joined.options = {"-lineinfo -default-device"};
  EXPECT_NE(ArtifactKey(joined, "h").id(), ArtifactKey(Sample(), "h").id());
}

TEST(ArtifactKeyTest, PrebuiltBinariesAreTheirBytesSymbolsAndArchitecture) {
  Program program;
  program.architecture = "sm_90a";
  program.prebuilt_bytes = "one";
  program.prebuilt_symbols = {"k"};
  const std::string key = ArtifactKey(program, "h").id();
  EXPECT_EQ(key, ArtifactKey(program, "another toolkit").id());
  Program bytes = program;
  bytes.prebuilt_bytes = "two";
  EXPECT_NE(key, ArtifactKey(bytes, "h").id());
  Program symbols = program;
  symbols.prebuilt_symbols = {"k2"};
  EXPECT_NE(key, ArtifactKey(symbols, "h").id());
}

TEST(KeyTest, PrintsEveryIngredientAndIsTheHashOfTheText) {
  const Key key = ArtifactKey(Sample(), "h");
  EXPECT_EQ(key.id(), Sha256Hex(key.Canonical()));
  EXPECT_THAT(key.Canonical(), HasSubstr("architecture=sm_90a\n"));
  EXPECT_THAT(key.Canonical(), HasSubstr("header[1]=b.h " + Sha256Hex("#define B 1\n") + "\n"));
  EXPECT_THAT(key.Canonical(), HasSubstr("option[1]=-default-device\n"));
  EXPECT_THAT(key.Canonical(), HasSubstr("define[0]=X=1\n"));
  EXPECT_THAT(key.Canonical(), HasSubstr("entry[0]=copy<float, 128>\n"));
}

TEST(KeyTest, ValuesWithNewlinesStayOnTheirLine) {
  const Key one = KeyOf({{"a", "1\nb=2"}});
  const Key two = KeyOf({{"a", "1"}, {"b", "2"}});
  EXPECT_NE(one.id(), two.id());
  EXPECT_EQ(one.Canonical(), "a=1\\nb=2\n");
  EXPECT_NE(KeyOf({{"a", "\\n"}}).id(), KeyOf({{"a", "\n"}}).id());
  EXPECT_NE(KeyOf({{"a=b", "c"}}).id(), KeyOf({{"a", "b=c"}}).id());
}

TEST(KeyTest, DifferenceNamesWhatChangedWasAddedOrIsGone) {
  Program other = Sample();
  other.headers[1].content = "#define B 2\n";
  other.options.pop_back();
  other.name_expressions.push_back("more");
  EXPECT_THAT(ArtifactKey(Sample(), "h").Difference(ArtifactKey(other, "h")),
              ElementsAre("header[1]", "option[1]", "entry[1]"));
  EXPECT_THAT(ArtifactKey(Sample(), "h").Difference(ArtifactKey(Sample(), "h")), ElementsAre());
}

DeviceFingerprint H200() {
  DeviceFingerprint device;
  device.kind = "cuda";
  device.architecture = "sm_90a";
  device.sm_count = 132;
  return device;
}

std::string TuningId(const KernelTemplatePtr& made, const std::string& problem,
                     const DeviceFingerprint& device = H200(),
                     const std::string& policy = "v1 cold") {
  return TuningKey(*made, ProblemOf(*made, problem), device, policy).id();
}

TEST(TuningKeyTest, TemplateProblemDeviceAndPolicyChangeTheKey) {
  const auto made = SimpleTemplate();
  const std::string key = TuningId(made, "n=1024");
  EXPECT_EQ(key, TuningId(SimpleTemplate(), "T=F32 n=1024"));
  EXPECT_NE(key, TuningId(made, "n=2048"));
  EXPECT_NE(key, TuningId(made, "n=1024 T=F16"));
  EXPECT_NE(key, TuningId(made, "n=1024", H200(), "v1 warm"));
  DeviceFingerprint slice = H200();
  slice.sm_count = 16;
  EXPECT_NE(key, TuningId(made, "n=1024", slice));
  EXPECT_NE(key, TuningId(SimpleTemplate({.body = "second"}), "n=1024"));
}

TEST(TuningKeyTest, PrintsTheProblemAndTheDevice) {
  const auto made = SimpleTemplate();
  const std::string text =
      TuningKey(*made, ProblemOf(*made, "n=1024"), H200(), "v1 cold").Canonical();
  EXPECT_THAT(text, HasSubstr("param.n=1024\n"));
  EXPECT_THAT(text, HasSubstr("param.T=F32\n"));
  EXPECT_THAT(text, HasSubstr("device.sm_count=132\n"));
  EXPECT_THAT(text, HasSubstr("policy=v1 cold\n"));
  EXPECT_THAT(text, HasSubstr("kernel=" + made->kernel_digest()));
}

// scenario P30
TEST(TuningKeyTest, AddingATunableValueKeepsTheKeyAndChangesTheTemplate) {
  const auto before = SimpleTemplate({.xblock = {64, 128, 256}});
  const auto after = SimpleTemplate({.xblock = {64, 128, 256, 512}});
  EXPECT_EQ(TuningId(before, "n=1024"), TuningId(after, "n=1024"));
  EXPECT_NE(before->digest(), after->digest());
}

TEST(KernelDigestTest, IgnoresWhatNoMeasurementDependsOn) {
  const std::string digest = SimpleTemplate()->kernel_digest();
  const auto changed = [](const std::function<void(TemplateSpec&)>& change) {
    return Made(Changed(change))->kernel_digest();
  };
  EXPECT_EQ(digest, changed([](TemplateSpec& s) { s.description = "other words"; }));
  EXPECT_EQ(digest, changed([](TemplateSpec& s) { s.priors = {{{}, {}, {{"VEC", 4}}}}; }));
  EXPECT_EQ(digest, changed([](TemplateSpec& s) { s.work_flops = Parsed("n"); }));
  EXPECT_EQ(digest, changed([](TemplateSpec& s) { s.base.tunables[0].default_value = 128; }));
  EXPECT_EQ(digest, changed([](TemplateSpec& s) {
              s.base.constraints = {Parsed("XBLOCK * VEC <= 1024")};
            }));
}

TEST(KernelDigestTest, ChangesWithWhatMeasurementsDependOn) {
  const std::string digest = SimpleTemplate()->kernel_digest();
  const auto changed = [](const std::function<void(TemplateSpec&)>& change) {
    return Made(Changed(change))->kernel_digest();
  };
  EXPECT_NE(digest, changed([](TemplateSpec& s) { s.files[0].content += " "; }));
  EXPECT_NE(digest, changed([](TemplateSpec& s) { s.base.options = {"-lineinfo"}; }));
  EXPECT_NE(digest, changed([](TemplateSpec& s) { s.defines = {{"A", "1"}}; }));
  EXPECT_NE(digest, changed([](TemplateSpec& s) {
              s.base.steps[0].launch.shape.grid[0] = Parsed("ceil_div(n, VEC)");
            }));
  EXPECT_NE(digest,
            changed([](TemplateSpec& s) { s.checks[0].tolerance = {.exact = false, .atol = 1}; }));
  EXPECT_NE(digest, changed([](TemplateSpec& s) { BufferOf(s.base, 1).init = InitKind::kZeros; }));
  // A guard decides at which small sizes candidates were checked.
  EXPECT_NE(digest,
            changed([](TemplateSpec& s) { s.base.constraints = {Parsed("n % VEC == 0")}; }));
  EXPECT_NE(digest, changed([](TemplateSpec& s) { s.params[1].min = 1; }));
}

TEST(TemplateDigestTest, FileOrderSaysNothingAndEveryOtherFieldDoes) {
  const auto with_header = [](bool swapped) {
    return Made(Changed([swapped](TemplateSpec& spec) {
             spec.headers = {"a.h"};
             spec.files.push_back({"a.h", "//\n"});
             if (swapped) std::swap(spec.files[0], spec.files[1]);
           }))
        ->digest();
  };
  EXPECT_EQ(with_header(false), with_header(true));
  EXPECT_NE(with_header(false), SimpleTemplate()->digest());
  EXPECT_NE(Made(Changed([](TemplateSpec& s) { s.version = "2"; }))->digest(),
            SimpleTemplate()->digest());
}

}  // namespace
}  // namespace hone
