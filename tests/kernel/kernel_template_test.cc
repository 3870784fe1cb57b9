#include "runtime/kernel/kernel_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "runtime/kernel/field_error.h"
#include "tests/kernel/specs.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// The error that a change to the copy template causes.
absl::Status ErrorOf(const std::function<void(TemplateSpec&)>& change) {
  return KernelTemplate::Create(Changed(change)).status();
}

// INVALID_ARGUMENT about a field, with something in its text.
testing::Matcher<absl::Status> ErrorAt(const std::string& path, const std::string& text = "") {
  return testing::AllOf(
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(StartsWith(path + ": "), HasSubstr(text))),
      testing::ResultOf([](const absl::Status& s) { return FieldOf(s).value_or(""); }, path));
}

TEST(KernelTemplateTest, AcceptsAGoodTemplateAndResolvesArguments) {
  const auto made = Made(Changed([](TemplateSpec& s) { s.base.steps[0].arguments.clear(); }));
  EXPECT_EQ(made->spec().base.steps[0].arguments, (std::vector<std::string>{"dst", "src", "n"}));
  EXPECT_EQ(made->digest(), SimpleTemplate()->digest());
  EXPECT_EQ(made->digest().size(), 64u);
  EXPECT_EQ(made->FindParameter("n")->name, "n");
  EXPECT_EQ(made->FindParameter("x"), nullptr);
  EXPECT_EQ(made->FindFile("copy.cu")->content, "// first\n");
}

TEST(KernelTemplateTest, NamesAreCheckedAndUnique) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.name = "Copy"; }), ErrorAt("name", "Copy"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.name = "a\nb"; }), ErrorAt("name", "control"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.name = "a\xff"; }), ErrorAt("name", "UTF-8"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.name = std::string(65, 'a'); }), ErrorAt("name"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.params[1].name = "T"; }),
              ErrorAt("params[1].name", "twice"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.params[0].name = "F16"; }),
              ErrorAt("params[0].name", "meaning"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.base.tunables[1].name = "n"; }),
              ErrorAt("tunables[1].name", "twice"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.base.tunables[1].name = "ceil_div"; }),
              ErrorAt("tunables[1].name"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.base.arguments[1].name = "dst"; }),
              ErrorAt("arguments[1].name", "twice"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.base.arguments[1].name = "a b"; }),
              ErrorAt("arguments[1].name"));
}

TEST(KernelTemplateTest, DomainsAndDefaultsMustAgree) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.params[0].dtypes.clear(); }),
              ErrorAt("params[0].dtype.values"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.params[0].default_value = DataType::kF64; }),
              ErrorAt("params[0].dtype.default", "F64"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.params[1].min = -1; }),
              ErrorAt("params[1].size.min", "-1"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.params[1].max = -1; }),
              ErrorAt("params[1].size.max"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.params[1].min = 9;
                s.params[1].max = 15;
                s.params[1].multiple_of = 8;
              }),
              ErrorAt("params[1].size.multiple_of", "no multiple of 8"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.params[1].multiple_of = 8;
                s.params[1].default_value = int64_t{12};
              }),
              ErrorAt("params[1].size.default", "12"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.params[1].bucket = BucketRule::kList;
                s.params[1].bucket_values = {16, 16};
              }),
              ErrorAt("params[1].size.bucket_values[1]"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.params[1].bucket = BucketRule::kList; }),
              ErrorAt("params[1].size.bucket_values"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.params[1].bucket_values = {1}; }),
              ErrorAt("params[1].size.bucket_values", "LIST"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.base.tunables[0].default_value = 65; }),
              ErrorAt("tunables[0].default", "65"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.base.tunables[0].values = {}; }),
              ErrorAt("tunables[0].values"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.base.tunables[0].values = {64, 64};
              }),
              ErrorAt("tunables[0].values[1]", "twice"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.base.tunables[0].per_architecture = {{{"sm_9x"}, {64}, 64}};
              }),
              ErrorAt("tunables[0].per_architecture[0].architectures[0]", "sm_9x"));
}

TEST(KernelTemplateTest, ChoicesAreQualifiedNames) {
  const auto with = [](std::vector<std::string> choices) {
    return [choices](TemplateSpec& spec) {
      Parameter act;
      act.name = "act";
      act.kind = ParameterKind::kChoice;
      act.choices = choices;
      spec.params.push_back(act);
    };
  };
  EXPECT_THAT(ErrorOf(with({"a; }"})), ErrorAt("params[2].choice.values[0]", "a; }"));
  EXPECT_THAT(ErrorOf(with({"relu", "relu"})), ErrorAt("params[2].choice.values[1]"));
  EXPECT_THAT(ErrorOf(with({"n"})), ErrorAt("params[2].choice.values", "\"n\""));
  EXPECT_THAT(ErrorOf(with({})), ErrorAt("params[2].choice.values"));
  EXPECT_THAT(ErrorOf(with({"relu", "ns::gelu"})), IsOk());
}

TEST(KernelTemplateTest, ExpressionsUseDeclaredNamesOnly) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.base.steps[0].launch.shape.grid[0] = Parsed("ceil_div(N, XBLOCK)");
              }),
              ErrorAt("steps[0].launch.grid_x", "\"N\""));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.base.constraints = {Parsed("1"), Parsed("Z > 1")};
              }),
              ErrorAt("constraints[1]", "\"Z\""));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.base.constraints = {Parsed("device.sms > 1")}; }),
              ErrorAt("constraints[0]", "device.sm_count"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.base.steps[0].when = Parsed("m"); }),
              ErrorAt("steps[0].when"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.work_bytes = Parsed("VEC"); }),
              ErrorAt("work.bytes", "tunable"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.base.constraints = {Parsed("XBLOCK <= device.max_threads_per_block")};
              }),
              IsOk());
}

TEST(KernelTemplateTest, ExpressionsAreTypeChecked) {
  const auto constraint = [](const std::string& text) {
    return ErrorOf([&text](TemplateSpec& s) { s.base.constraints = {Parsed(text)}; });
  };
  EXPECT_THAT(constraint("T > 1"), ErrorAt("constraints[0]", "a data type"));
  EXPECT_THAT(constraint("T"), ErrorAt("constraints[0]", "a data type"));
  EXPECT_THAT(constraint("sizeof(n) == 4"), ErrorAt("constraints[0]", "a data type is expected"));
  EXPECT_THAT(constraint("T == 4"), ErrorAt("constraints[0]"));
  EXPECT_THAT(constraint("T == relu"), ErrorAt("constraints[0]", "relu"));
  EXPECT_THAT(constraint("T == F16 ? VEC <= 8 : VEC <= 4"), IsOk());
  EXPECT_THAT(constraint("bits(T) * VEC <= 128 && sizeof(F16) == 2"), IsOk());
}

TEST(KernelTemplateTest, WhatMustBeTheSameForEveryConfigMayNotUseTunables) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { BufferOf(s.base, 0).shape = {Parsed("n * VEC")}; }),
              ErrorAt("arguments[0].buffer.shape[0]", "tunable"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.checks[0].reference = "ref<${VEC}>"; }),
              ErrorAt("check[0].reference", "tunable"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.checks[0].launch.shape.grid[0] = Parsed("XBLOCK"); }),
              ErrorAt("check[0].launch.grid_x", "tunable"));
}

TEST(KernelTemplateTest, AlignmentIsKnownBeforeTheLaunch) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { BufferOf(s.base, 0).alignment_bytes = Parsed("n"); }),
              ErrorAt("arguments[0].buffer.alignment_bytes", "dynamic size"));
}

TEST(KernelTemplateTest, PlaceholdersAreDeclaredAndNeverDynamic) {
  const auto entry = [](const std::string& text) {
    return ErrorOf([&text](TemplateSpec& s) { s.base.steps[0].entry = text; });
  };
  EXPECT_THAT(entry("copy<${U}>"), ErrorAt("steps[0].entry", "${U}"));
  EXPECT_THAT(entry("copy<${n}>"), ErrorAt("steps[0].entry", "dynamic"));
  EXPECT_THAT(entry("copy<${T>"), ErrorAt("steps[0].entry", "closing brace"));
  EXPECT_THAT(entry("copy\n<float>"), ErrorAt("steps[0].entry", "control"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.defines = {{"D", "${Q}"}};
              }),
              ErrorAt("defines[0].value", "${Q}"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.defines = {{"D E", "1"}};
              }),
              ErrorAt("defines[0].name"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.defines = {{"D", "1"}, {"D", "2"}};
              }),
              ErrorAt("defines[1].name", "twice"));
}

TEST(KernelTemplateTest, IntegerInputsNeedAnInit) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.params[0].dtypes.push_back(DataType::kI32); }),
              ErrorAt("arguments[1].buffer.init", "I32"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.params[0].dtypes.push_back(DataType::kI32);
                BufferOf(s.base, 1).init = InitKind::kIota;
              }),
              IsOk());
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { BufferOf(s.base, 0).init = InitKind::kZeros; }),
              ErrorAt("arguments[0].buffer.init", "poisoned"));
}

TEST(KernelTemplateTest, EachInitTakesTheFieldsItUsesAndNoOthers) {
  const auto init = [](InitKind kind, const std::function<void(TemplateBuffer&)>& change) {
    return ErrorOf([&](TemplateSpec& s) {
      BufferOf(s.base, 1).init = kind;
      change(BufferOf(s.base, 1));
    });
  };
  const auto nothing = [](TemplateBuffer&) {};
  EXPECT_THAT(init(InitKind::kIndex, nothing), ErrorAt("arguments[1].buffer.init_high", "INDEX"));
  EXPECT_THAT(init(InitKind::kUniformInt, nothing), ErrorAt("arguments[1].buffer.init_low"));
  EXPECT_THAT(init(InitKind::kGenerator, nothing), ErrorAt("arguments[1].buffer.generator"));
  EXPECT_THAT(init(InitKind::kNormal, [](TemplateBuffer& b) { b.init_low = Parsed("1"); }),
              ErrorAt("arguments[1].buffer.init_low", "does not use"));
  EXPECT_THAT(init(InitKind::kIota, [](TemplateBuffer& b) { b.init_skew = 1; }),
              ErrorAt("arguments[1].buffer.init_skew", "does not use"));
  EXPECT_THAT(init(InitKind::kOffsets,
                   [](TemplateBuffer& b) {
                     b.init_high = Parsed("n");
                     b.init_skew = 2;
                   }),
              IsOk());
  EXPECT_THAT(
      init(InitKind::kGenerator, [](TemplateBuffer& b) { b.generator_entry = "g<${VEC}>"; }),
      ErrorAt("arguments[1].buffer.generator.entry", "tunable"));
}

TEST(KernelTemplateTest, StepsNameDeclaredArguments) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.base.steps[0].arguments = {"dst", "x"};
              }),
              ErrorAt("steps[0].arguments[1]", "\"x\""));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.base.steps.clear(); }), ErrorAt("steps"));
  EXPECT_THAT(
      ErrorOf([](TemplateSpec& s) { s.base.steps[0].programmatic_dependent_launch = true; }),
      ErrorAt("steps[0].programmatic_dependent_launch"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.base.steps[0].launch.shape.block[1] = Expression::Constant(0);
              }),
              ErrorAt("steps[0].launch.block_y", "0"));
}

TEST(KernelTemplateTest, MemsetsFillWhatMayBeWritten) {
  const auto memset = [](const std::string& argument, int value) {
    return [=](TemplateSpec& spec) {
      TemplateStep step;
      step.memset_argument = argument;
      step.memset_value = value;
      spec.base.steps.insert(spec.base.steps.begin(), step);
    };
  };
  EXPECT_THAT(ErrorOf(memset("dst", 0)), IsOk());
  EXPECT_THAT(ErrorOf(memset("src", 0)), ErrorAt("steps[0].memset.argument", "src"));
  EXPECT_THAT(ErrorOf(memset("n", 0)), ErrorAt("steps[0].memset.argument"));
  EXPECT_THAT(ErrorOf(memset("nothing", 0)), ErrorAt("steps[0].memset.argument", "nothing"));
  EXPECT_THAT(ErrorOf(memset("dst", 256)), ErrorAt("steps[0].memset.value", "256"));
}

TEST(KernelTemplateTest, ChecksCompareWrittenBuffersWithAStatedTolerance) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.checks[0].output = "src"; }),
              ErrorAt("check[0].output", "src"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.checks[0].tolerance.exact = false; }),
              ErrorAt("check[0]", "how close"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.checks[0].tolerance.rtol = 1e-3; }),
              ErrorAt("check[0].exact"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.checks[0].tolerance.mismatch_share_max = 2; }),
              ErrorAt("check[0].mismatch_share_max"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.checks[0].tolerance = {.exact = false,
                                         .atol = std::numeric_limits<double>::infinity()};
              }),
              ErrorAt("check[0].atol"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.checks.push_back(s.checks[0]); }),
              ErrorAt("check[1].output", "twice"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.checks[0].by_dtype[DataType::kF64] = {.exact = false, .atol = 1};
              }),
              ErrorAt("check[0].by_dtype", "never F64"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.checks[0].reference.clear(); }), IsOk());
}

TEST(KernelTemplateTest, TensorMapsLieOverBuffersWithFittingRanks) {
  const auto with = [](const std::function<void(RecipeTensorMap&)>& change) {
    return [change](TemplateSpec& spec) {
      TemplateTensorMap map;
      map.map.buffer = "src";
      map.map.dims = {Parsed("n"), Parsed("n")};
      map.map.strides_bytes = {Parsed("n * sizeof(T)")};
      map.map.box = {Parsed("VEC"), Parsed("8")};
      change(map.map);
      spec.base.arguments.push_back({"map", map});
    };
  };
  EXPECT_THAT(ErrorOf(with([](RecipeTensorMap&) {})), IsOk());
  EXPECT_THAT(ErrorOf(with([](RecipeTensorMap& m) { m.buffer = "n"; })),
              ErrorAt("arguments[3].tensor_map.buffer"));
  EXPECT_THAT(ErrorOf(with([](RecipeTensorMap& m) { m.strides_bytes.clear(); })),
              ErrorAt("arguments[3].tensor_map.strides_bytes", "expected 1"));
  EXPECT_THAT(ErrorOf(with([](RecipeTensorMap& m) { m.box.pop_back(); })),
              ErrorAt("arguments[3].tensor_map.box", "expected 2"));
  EXPECT_THAT(ErrorOf(with([](RecipeTensorMap& m) { m.dims.clear(); })),
              ErrorAt("arguments[3].tensor_map.dims"));
}

TEST(KernelTemplateTest, BuffersKnowTheirTypesStridesAndAliases) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { BufferOf(s.base, 0).dtype = "U"; }),
              ErrorAt("arguments[0].buffer.dtype", "U"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { BufferOf(s.base, 0).dtype = "n"; }),
              ErrorAt("arguments[0].buffer.dtype"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                BufferOf(s.base, 0).strides = {Parsed("1"), Parsed("1")};
              }),
              ErrorAt("arguments[0].buffer.strides"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { BufferOf(s.base, 0).may_alias = {"n"}; }),
              ErrorAt("arguments[0].buffer.may_alias[0]"));
}

TEST(KernelTemplateTest, FilesArePresentNamedBoundedAndUtf8) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.files.clear(); }), ErrorAt("source", "copy.cu"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.base.source.clear(); }), ErrorAt("source"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.headers = {"../x.h"}; }),
              ErrorAt("headers[0]", "\"..\""));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.headers = {"/etc/passwd"}; }),
              ErrorAt("headers[0]", "absolute"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.headers = {"x.h"}; }), ErrorAt("headers", "x.h"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.files.push_back({"x.h", ""});
              }),
              ErrorAt("files[1].name", "x.h"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.files[0].content = "\xc3\x28"; }),
              ErrorAt("files[0].content", "UTF-8"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.files[0].content.assign((1 << 20) + 1, ' '); }),
              ErrorAt("files[0].content", "1048576"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.header_sets = {"cutlass"}; }),
              ErrorAt("header_sets[0]", "cutlass"));
}

TEST(KernelTemplateTest, ArithmeticIsADataTypeOrADtypeParameter) {
  for (const char* good : {"", "F16", "BF16", "T"}) {
    EXPECT_THAT(KernelTemplate::Create(Changed([&](TemplateSpec& s) { s.matrix_dtype = good; })),
                IsOk())
        << good;
  }
  for (const char* bad : {"F12", "n"}) {
    EXPECT_THAT(KernelTemplate::Create(Changed([&](TemplateSpec& s) { s.matrix_dtype = bad; })),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::AllOf(testing::HasSubstr("work.matrix_dtype"),
                                        testing::HasSubstr("dtype parameter"))))
        << bad;
  }
}

TEST(KernelTemplateTest, CountsAreBounded) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                for (int i = 0; i < 64; ++i) {
                  s.base.tunables.push_back(MakeTunable("Q" + std::to_string(i), {1}));
                }
              }),
              ErrorAt("tunables", "66"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.base.tunables[0].values.clear();
                for (int i = 0; i <= 4096; ++i) s.base.tunables[0].values.push_back(64 + i);
              }),
              ErrorAt("tunables[0].values", "4096"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                while (s.params.size() <= 64) {
                  Parameter flag;
                  flag.name = "f" + std::to_string(s.params.size());
                  flag.kind = ParameterKind::kFlag;
                  s.params.push_back(flag);
                }
              }),
              ErrorAt("params", "64"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                while (s.base.arguments.size() <= 64) {
                  s.base.arguments.push_back(
                      {"a" + std::to_string(s.base.arguments.size()), TemplateScalar()});
                }
              }),
              ErrorAt("arguments", "64"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.description.assign(1 << 20, 'x'); }),
              ErrorAt("description"));
}

TEST(KernelTemplateTest, ErrorsInVariantsNameTheVariant) {
  const auto variant = [](const std::function<void(TemplateBody&)>& change) {
    return ErrorOf([&change](TemplateSpec& spec) {
      ArchitectureBody body{{"sm_90a"}, spec.base};
      change(body.body);
      spec.variants.push_back(body);
    });
  };
  EXPECT_THAT(variant([](TemplateBody& b) { b.steps[0].arguments = {"x"}; }),
              ErrorAt("variants[0].steps[0].arguments[0]"));
  EXPECT_THAT(variant([](TemplateBody& b) { b.source = "other.cu"; }), ErrorAt("source", "other"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& spec) {
                spec.variants.push_back({{}, spec.base});
              }),
              ErrorAt("variants[0].architectures"));
}

TEST(KernelTemplateTest, PriorsNameTunablesAndTheirValues) {
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.priors = {{{}, {}, {{"VEC", 3}}}};
              }),
              ErrorAt("priors[0].config", "VEC: 3"));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.priors = {{{}, {}, {{"Q", 3}}}};
              }),
              ErrorAt("priors[0].config", "\"Q\""));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) {
                s.priors = {{{}, Parsed("VEC > 1"), {{"VEC", 1}}}};
              }),
              ErrorAt("priors[0].when", "tunable"));
}

TEST(KernelTemplateTest, BodyForTakesTheFirstVariantThatNamesTheArchitecture) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    for (const char* name : {"sm_90", "sm_90a"}) {
      ArchitectureBody variant{{name}, spec.base};
      variant.body.options = {std::string("-DFOR=") + name};
      spec.variants.push_back(variant);
    }
  }));
  EXPECT_EQ(made->BodyFor("sm_90a").options[0], "-DFOR=sm_90");
  EXPECT_EQ(made->BodyFor("compute_90").options[0], "-DFOR=sm_90");
  EXPECT_TRUE(made->BodyFor("sm_100a").options.empty());
}

TEST(ArchitectureTest, PlainNamesCoverTheirSpecificForms) {
  EXPECT_TRUE(ArchitectureMatches("sm_90", "sm_90"));
  EXPECT_TRUE(ArchitectureMatches("sm_90", "sm_90a"));
  EXPECT_TRUE(ArchitectureMatches("sm_100", "sm_100f"));
  EXPECT_TRUE(ArchitectureMatches("cpu", "cpu"));
  EXPECT_FALSE(ArchitectureMatches("sm_90a", "sm_90"));
  EXPECT_FALSE(ArchitectureMatches("sm_90", "sm_100"));
  EXPECT_FALSE(ArchitectureMatches("sm_9", "sm_90"));
  EXPECT_FALSE(ArchitectureMatches("cpu", "sm_90"));
}

TEST(ArchitectureTest, RequirementsDecideWhereATemplateRuns) {
  const auto needs = [](const std::string& minimum, std::vector<Feature> features) {
    return Made(Changed([&](TemplateSpec& spec) {
      spec.requirements = {minimum, std::move(features)};
    }));
  };
  EXPECT_THAT(needs("", {})->SupportsArchitecture("cpu"), IsOk());
  EXPECT_THAT(needs("sm_80", {})->SupportsArchitecture("sm_120a"), IsOk());
  EXPECT_THAT(needs("sm_80", {})->SupportsArchitecture("cpu"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("sm_80")));
  EXPECT_THAT(needs("", {Feature::kWgmma})->SupportsArchitecture("sm_90a"), IsOk());
  EXPECT_THAT(needs("", {Feature::kWgmma})->SupportsArchitecture("sm_90"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("WGMMA")));
  EXPECT_THAT(needs("", {Feature::kWgmma})->SupportsArchitecture("sm_100a"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("sm_90a")));
  EXPECT_THAT(needs("", {Feature::kTcgen05})->SupportsArchitecture("sm_120a"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("TCGEN05")));
  EXPECT_THAT(needs("", {Feature::kTensorCores})->SupportsArchitecture("cpu"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("TENSOR_CORES")));
  EXPECT_THAT(needs("", {})->SupportsArchitecture("gfx942"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gfx942")));
  EXPECT_THAT(ErrorOf([](TemplateSpec& s) { s.requirements.min_architecture = "sm_90a"; }),
              ErrorAt("requirements.min_architecture", "features"));
}

TEST(ArchitectureTest, TensorMapsImplyTma) {
  const auto made = Made(Changed([](TemplateSpec& spec) {
    TemplateTensorMap map;
    map.map.buffer = "src";
    map.map.dims = {Parsed("n")};
    map.map.box = {Parsed("64")};
    spec.base.arguments.push_back({"map", map});
  }));
  EXPECT_THAT(made->SupportsArchitecture("sm_90a"), IsOk());
  EXPECT_THAT(made->SupportsArchitecture("cpu"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("TMA")));
}

}  // namespace
}  // namespace hone
