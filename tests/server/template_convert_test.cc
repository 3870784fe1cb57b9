#include "server/template_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/protobuf/text_format.h"
#include "google/protobuf/unknown_field_set.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/instantiate.h"
#include "server/template_directory.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kCopy[] = R"pb(
  name: "copy"
  source: "copy.cu"
  params {
    name: "T"
    dtype {
      values: [ F32, F16 ]
      default: F32
    }
  }
  params {
    name: "n"
    size { dynamic: true bucket: POW2 min: 0 }
  }
  tunables {
    name: "XBLOCK"
    values: [ 64, 128 ]
    default: 64
  }
  constraints: "XBLOCK <= 1024"
  arguments {
    name: "dst"
    buffer {
      dtype: "T"
      shape: [ "n" ]
      access: WRITE
    }
  }
  arguments {
    name: "src"
    buffer {
      dtype: "T"
      shape: [ "n" ]
      access: READ
    }
  }
  arguments {
    name: "n"
    scalar { type: I64 value: "n" }
  }
  steps {
    entry: "copy<${T}, ${XBLOCK}>"
    launch { grid_x: "ceil_div(n, XBLOCK)" block_x: "XBLOCK" }
  }
  work { bytes: "2 * n * sizeof(T)" flops: "0" }
  check {
    reference: "ref<${T}>"
    launch { grid_x: "ceil_div(n, 256)" block_x: "256" }
    output: "dst"
    exact: true
  }
  files { name: "copy.cu" content: "// copy\n" }
)pb";

v1::KernelTemplate Message(const std::string& text) {
  v1::KernelTemplate message;
  EXPECT_THAT(ParseTemplateText(text, message, nullptr), IsOk());
  return message;
}

absl::StatusOr<std::string> NoHeaderSets(const std::string& name) {
  return absl::NotFoundError(name + " is not registered");
}

absl::StatusOr<KernelTemplatePtr> Make(const v1::KernelTemplate& message) {
  auto spec = ToTemplateSpec(message, NoHeaderSets);
  if (!spec.ok()) return spec.status();
  return KernelTemplate::Create(*std::move(spec));
}

// The error after merging more text into the copy template.
absl::Status ErrorWith(const std::string& more) {
  v1::KernelTemplate message = Message(kCopy);
  message.MergeFrom(Message(more));
  return Make(message).status();
}

absl::Status ErrorOf(const std::function<void(v1::KernelTemplate&)>& change) {
  v1::KernelTemplate message = Message(kCopy);
  change(message);
  return Make(message).status();
}

testing::Matcher<absl::Status> ErrorAt(const std::string& path, const std::string& text = "") {
  return AllOf(
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(StartsWith(path + ": "), HasSubstr(text))),
      testing::ResultOf([](const absl::Status& s) { return FieldOf(s).value_or(""); }, path));
}

TEST(TemplateConvertTest, ASimpleTemplateBecomesWhatItSays) {
  const auto made = Make(Message(kCopy));
  ASSERT_THAT(made, IsOk());
  const TemplateSpec& spec = (*made)->spec();
  EXPECT_EQ(spec.params[1].bucket, BucketRule::kPow2);
  EXPECT_EQ(spec.params[1].min, 0);
  EXPECT_EQ(spec.params[1].max, int64_t{1} << 62);
  EXPECT_EQ(spec.base.steps[0].launch.shape.block[1].constant(), 1);
  EXPECT_EQ(spec.base.steps[0].launch.shape.cluster[2].constant(), 1);
  EXPECT_EQ(spec.base.steps[0].launch.shape.dynamic_shared_bytes.constant(), 0);
  EXPECT_THAT(spec.base.steps[0].arguments, ElementsAre("dst", "src", "n"));
  EXPECT_TRUE(spec.checks[0].tolerance.exact);
}

TEST(TemplateConvertTest, EveryPartOfTheSchemaIsCarriedOver) {
  const auto made = Make(Message(R"pb(
    name: "everything"
    version: "3"
    description: "All of it"
    source: "a.cu"
    headers: "h.h"
    options: "-lineinfo"
    defines { name: "W" value: "${W}" }
    params {
      name: "T"
      dtype { values: [ F16 ] }
    }
    params {
      name: "m"
      size {
        dynamic: true
        bucket: LIST
        bucket_values: [ 8, 16 ]
        multiple_of: 8
      }
    }
    params {
      name: "k"
      size { min: 2 max: 64 default: 32 }
    }
    params {
      name: "act"
      choice {
        values: [ "relu", "gelu" ]
        default: "gelu"
      }
    }
    params {
      name: "causal"
      flag { default: true }
    }
    tunables {
      name: "W"
      values: [ 1, 2 ]
      default: 2
      per_architecture {
        architectures: "cpu"
        values: [ 1 ]
        default: 1
      }
    }
    arguments {
      name: "out"
      buffer {
        dtype: "T"
        shape: [ "m", "k" ]
        strides: [ "k + 8", "1" ]
        access: READ_WRITE
        alignment_bytes: "W * 16"
        may_alias: "idx"
        init: UNIFORM
      }
    }
    arguments {
      name: "idx"
      buffer { dtype: "I32" shape: "m" access: READ optional: true init: INDEX init_high: "m" }
    }
    arguments {
      name: "offsets"
      buffer { dtype: "I64" shape: "9" access: READ init: OFFSETS init_high: "m" init_skew: 1.5 }
    }
    arguments {
      name: "gen"
      buffer {
        dtype: "F32"
        access: READ
        init: GENERATOR
        generator {
          entry: "gen"
          launch { block_x: "32" }
        }
      }
    }
    arguments {
      name: "eps"
      scalar {
        type: F32
        per_launch { sample: 0.5 }
      }
    }
    arguments {
      name: "map"
      tensor_map {
        buffer: "out"
        dims: [ "k", "m" ]
        strides_bytes: "2 * k"
        box: [ "16", "8" ]
        swizzle: SWIZZLE_64B
        interleave: INTERLEAVE_16B
        l2_promotion: L2_PROMOTION_256B
        fill: FILL_NAN
      }
    }
    arguments {
      name: "ws"
      scratch { bytes: "4 * m" zeroed: ONCE }
    }
    steps {
      memset { argument: "ws" value: 7 bytes: "m" }
      when: "m > 8"
    }
    steps {
      entry: "one<${T}, ${W}>"
      arguments: [ "out", "ws" ]
      launch { grid_y: "m" cluster_x: "W" dynamic_shared_bytes: "1024" }
    }
    steps { entry: "two" programmatic_dependent_launch: true }
    work { bytes: "m" flops: "m * k" matrix_dtype: "F16" }
    check {
      reference: "ref"
      output: "out"
      atol: 1e-3
      rtol: 1e-2
      mismatch_share_max: 0.01
      nan: NAN_FORBIDDEN
      by_dtype { dtype: F16 atol: 0.5 }
    }
    requirements {
      min_architecture: "sm_80"
      features: [ CLUSTERS, TMA ]
    }
    variants {
      architectures: "sm_100a"
      source: "b.cu"
      options: "-G"
      steps { entry: "blackwell<${W}>" }
    }
    priors {
      architectures: "sm_90"
      when: "k > 8"
      config { key: "W" value: 1 }
    }
    files { name: "a.cu" content: "// a" }
    files { name: "b.cu" content: "// b" }
    files { name: "h.h" content: "// h" }
  )pb"));
  ASSERT_THAT(made, IsOk());
  const TemplateSpec& spec = (*made)->spec();
  EXPECT_EQ(spec.version, "3");
  EXPECT_EQ(spec.params[1].bucket_values, (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(spec.params[1].multiple_of, 8);
  EXPECT_EQ(ToString(*spec.params[2].default_value), "32");
  EXPECT_EQ(ToString(*spec.params[3].default_value), "gelu");
  EXPECT_EQ(ToString(*spec.params[4].default_value), "1");
  EXPECT_EQ(spec.base.tunables[0].per_architecture[0].default_value, 1);

  const auto& out = std::get<TemplateBuffer>(spec.base.arguments[0].kind);
  EXPECT_EQ(out.access, Access::kReadWrite);
  EXPECT_EQ(out.strides.size(), 2u);
  EXPECT_EQ(out.init, InitKind::kUniform);
  EXPECT_THAT(out.may_alias, ElementsAre("idx"));
  EXPECT_TRUE(std::get<TemplateBuffer>(spec.base.arguments[1].kind).optional);
  EXPECT_DOUBLE_EQ(std::get<TemplateBuffer>(spec.base.arguments[2].kind).init_skew, 1.5);
  const auto& gen = std::get<TemplateBuffer>(spec.base.arguments[3].kind);
  EXPECT_EQ(gen.generator_entry, "gen");
  EXPECT_EQ(gen.generator_launch.shape.block[0].constant(), 32);
  EXPECT_DOUBLE_EQ(std::get<TemplateScalar>(spec.base.arguments[4].kind).sample, 0.5);
  const RecipeTensorMap& map = std::get<TemplateTensorMap>(spec.base.arguments[5].kind).map;
  EXPECT_EQ(map.swizzle, 2);
  EXPECT_EQ(map.interleave, 1);
  EXPECT_EQ(map.l2_promotion, 3);
  EXPECT_TRUE(map.fill_nan);
  EXPECT_EQ(std::get<TemplateScratch>(spec.base.arguments[6].kind).zeroed, ScratchZeroed::kOnce);

  EXPECT_EQ(spec.base.steps[0].memset_value, 7);
  EXPECT_TRUE(spec.base.steps[0].when.has_value());
  EXPECT_THAT(spec.base.steps[1].arguments, ElementsAre("out", "ws"));
  EXPECT_TRUE(spec.base.steps[2].programmatic_dependent_launch);
  EXPECT_EQ(spec.matrix_dtype, "F16");
  EXPECT_EQ(spec.checks[0].tolerance.nan, NanPolicy::kNanForbidden);
  EXPECT_DOUBLE_EQ(spec.checks[0].by_dtype.at(DataType::kF16).atol, 0.5);
  EXPECT_DOUBLE_EQ(spec.checks[0].by_dtype.at(DataType::kF16).rtol, 0);
  EXPECT_DOUBLE_EQ(spec.checks[0].by_dtype.at(DataType::kF16).mismatch_share_max, 0.01);
  EXPECT_THAT(spec.requirements.features, ElementsAre(Feature::kClusters, Feature::kTma));
  EXPECT_EQ(spec.priors[0].config.at("W"), 1);

  // The variant gives source, options and steps; the rest is the base's.
  const TemplateBody& variant = (*made)->BodyFor("sm_100a");
  EXPECT_EQ(variant.source, "b.cu");
  EXPECT_EQ(variant.steps.size(), 1u);
  EXPECT_EQ(variant.arguments.size(), 7u);
  EXPECT_EQ(variant.tunables.size(), 1u);
}

TEST(TemplateConvertTest, ParseErrorsNameTheFieldAndTheColumn) {
  EXPECT_THAT(ErrorOf([](v1::KernelTemplate& m) {
                m.mutable_steps(0)->mutable_launch()->set_grid_x("ceil_div(n,, XBLOCK)");
              }),
              ErrorAt("steps[0].launch.grid_x", "column 12"));
  EXPECT_THAT(ErrorOf([](v1::KernelTemplate& m) { m.set_constraints(0, "XBLOCK >"); }),
              ErrorAt("constraints[0]", "column 9"));
  EXPECT_THAT(ErrorOf([](v1::KernelTemplate& m) {
                m.mutable_arguments(1)->mutable_buffer()->set_shape(0, "n n");
              }),
              ErrorAt("arguments[1].buffer.shape[0]", "column 3"));
  EXPECT_THAT(ErrorOf([](v1::KernelTemplate& m) { m.mutable_work()->set_bytes("@"); }),
              ErrorAt("work.bytes"));
  EXPECT_THAT(ErrorWith(R"pb(variants { architectures: "cpu" constraints: "1 +" })pb"),
              ErrorAt("variants[0].constraints[0]"));
}

TEST(TemplateConvertTest, WhatIsNotExecutableIsRefusedByName) {
  EXPECT_THAT(ErrorOf([](v1::KernelTemplate& m) {
                m.mutable_arguments(1)->mutable_buffer()->set_init(v1::Buffer::CAPTURE);
              }),
              ErrorAt("arguments[1].buffer.init", "CAPTURE"));
}

TEST(TemplateConvertTest, UnknownEnumValuesAndFieldsAreRefusedNotIgnored) {
  EXPECT_THAT(
      ErrorOf([](v1::KernelTemplate& m) {
        m.mutable_arguments(1)->mutable_buffer()->set_init(static_cast<v1::Buffer::Init>(77));
      }),
      ErrorAt("arguments[1].buffer.init", "77"));
  EXPECT_THAT(ErrorOf([](v1::KernelTemplate& m) {
                m.mutable_params(0)->mutable_dtype()->add_values(static_cast<v1::DataType>(99));
              }),
              ErrorAt("params[0].dtype.values[2]", "99"));
  EXPECT_THAT(ErrorOf([](v1::KernelTemplate& m) {
                m.mutable_requirements()->add_features(static_cast<v1::Requires::Feature>(50));
              }),
              ErrorAt("requirements.features[0]", "50"));
  // A field of a newer schema, as it arrives from a newer client.
  EXPECT_THAT(ErrorOf([](v1::KernelTemplate& m) {
                v1::Step* step = m.mutable_steps(0);
                step->GetReflection()->MutableUnknownFields(step)->AddVarint(999, 1);
              }),
              ErrorAt("steps[0]", "999"));
}

TEST(TemplateConvertTest, ExclusiveFieldsAreRefusedTogether) {
  EXPECT_THAT(ErrorWith(R"pb(steps {
                               entry: "k"
                               memset { argument: "dst" }
                             })pb"),
              ErrorAt("steps[1]", "either entry or memset"));
  EXPECT_THAT(ErrorWith(R"pb(steps { when: "1" })pb"), ErrorAt("steps[1]"));
  EXPECT_THAT(ErrorWith(R"pb(steps {
                               memset { argument: "dst" }
                               launch { grid_x: "1" }
                             })pb"),
              ErrorAt("steps[1].launch"));
  EXPECT_THAT(ErrorWith(R"pb(arguments {
                               name: "s"
                               scalar { type: F32 }
                             })pb"),
              ErrorAt("arguments[3].scalar", "either value or per_launch"));
  EXPECT_THAT(ErrorWith(R"pb(arguments {
                               name: "s"
                               scalar { value: "1" }
                             })pb"),
              ErrorAt("arguments[3].scalar.type"));
  EXPECT_THAT(ErrorWith(R"pb(arguments { name: "s" })pb"), ErrorAt("arguments[3]"));
  EXPECT_THAT(ErrorWith(R"pb(params { name: "p" })pb"), ErrorAt("params[2]"));
  EXPECT_THAT(ErrorWith(R"pb(arguments {
                               name: "b"
                               buffer { dtype: "F32" }
                             })pb"),
              ErrorAt("arguments[3].buffer.access"));
}

TEST(TemplateConvertTest, ALaterCheckMayShareTheReferenceBefore) {
  v1::KernelTemplate message = Message(kCopy);
  message.MergeFrom(Message(R"pb(
    arguments {
      name: "sum"
      buffer { dtype: "F32" access: WRITE }
    }
    check { output: "sum" rtol: 1e-3 }
  )pb"));
  const auto made = Make(message);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ((*made)->spec().checks[1].reference, "ref<${T}>");
  EXPECT_EQ((*made)->spec().checks[1].launch.shape.block[0].constant(), 256);
  message.mutable_check(1)->mutable_launch()->set_block_x("1");
  EXPECT_THAT(Make(message), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("check[1].launch: given without a reference")));
}

TEST(TemplateConvertTest, AToleranceForATypeIsGivenOnce) {
  EXPECT_THAT(ErrorOf([](v1::KernelTemplate& m) {
                for (int i = 0; i < 2; ++i) m.mutable_check(0)->add_by_dtype()->set_dtype(v1::F16);
              }),
              ErrorAt("check[0].by_dtype[1].dtype", "twice"));
}

TEST(TemplateConvertTest, HeaderSetsAreResolvedToDigests) {
  v1::KernelTemplate message = Message(kCopy);
  message.add_header_sets("cutlass");
  const std::string digest(64, 'd');
  const auto spec = ToTemplateSpec(message, [&](const std::string& name) {
    EXPECT_EQ(name, "cutlass");
    return absl::StatusOr<std::string>(digest);
  });
  ASSERT_THAT(spec, IsOk());
  EXPECT_THAT(spec->header_sets, ElementsAre(digest));
  EXPECT_THAT(ToTemplateSpec(message, NoHeaderSets),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("header_sets[0]"), HasSubstr("cutlass"))));
}

TEST(TemplateConvertTest, DescribingATemplateDoesNotChangeItsIdentity) {
  const v1::KernelTemplate message = Message(kCopy);
  v1::KernelTemplate again;
  ASSERT_TRUE(again.ParseFromString(message.SerializeAsString()));
  EXPECT_EQ((*Make(message))->digest(), (*Make(again))->digest());
}

TEST(TemplateTextTest, SyntaxErrorsHaveLineAndColumnAndUnknownFieldsAreErrors) {
  v1::KernelTemplate message;
  EXPECT_THAT(
      ParseTemplateText("name: \"a\"\nfoo: 1\n", message, nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("2:"), HasSubstr("foo"))));
  EXPECT_THAT(ParseTemplateText("params { name: 3 }", message, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1:")));
  EXPECT_THAT(ParseTemplateText("arguments { buffer { access: RAED } }", message, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("RAED")));
}

}  // namespace
}  // namespace hone
