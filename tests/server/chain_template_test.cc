// Templates with chain parameters, and data types that follow another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/kernel/field_error.h"
#include "runtime/kernel/problem.h"
#include "server/template_convert.h"
#include "server/template_directory.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kChainless[] = R"pb(
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
    size { dynamic: true min: 0 }
  }
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
    entry: "copy<${T}>"
    launch { grid_x: "ceil_div(n, 64)" block_x: "64" }
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

v1::KernelTemplate ChainMessage(const std::string& text) {
  v1::KernelTemplate message;
  EXPECT_THAT(ParseTemplateText(text, message, nullptr), IsOk());
  return message;
}

absl::StatusOr<KernelTemplatePtr> MakeChain(const v1::KernelTemplate& message) {
  auto spec = ToTemplateSpec(message, [](const std::string& name) -> absl::StatusOr<std::string> {
    return absl::NotFoundError(name + " is not registered");
  });
  if (!spec.ok()) return spec.status();
  return KernelTemplate::Create(*std::move(spec));
}

testing::Matcher<absl::Status> ChainErrorAt(const std::string& path, const std::string& text) {
  return AllOf(
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(StartsWith(path + ": "), HasSubstr(text))),
      testing::ResultOf([](const absl::Status& s) { return FieldOf(s).value_or(""); }, path));
}

// The copy template with a chain over its source, changed.
absl::Status ErrorOfChain(const std::function<void(v1::KernelTemplate&)>& change) {
  v1::KernelTemplate message = ChainMessage(kChainless);
  message.MergeFrom(ChainMessage(R"pb(
    params {
      name: "f"
      chain {
        inputs: "src"
        presets { name: "twice" expression: "src * 2" }
      }
    }
  )pb"));
  *message.mutable_check(0) = v1::Check();
  message.mutable_check(0)->set_output("dst");
  message.mutable_check(0)->set_chain("f");
  change(message);
  return MakeChain(message).status();
}

TEST(ChainTemplateTest, ChainsNameArgumentsTheyCanRead) {
  EXPECT_THAT(ErrorOfChain([](v1::KernelTemplate&) {}), IsOk());
  const auto chain = [](v1::KernelTemplate& m) { return m.mutable_params(2)->mutable_chain(); };
  EXPECT_THAT(ErrorOfChain([&](auto& m) { chain(m)->clear_inputs(); }),
              ChainErrorAt("params[2].chain.inputs", "is empty"));
  EXPECT_THAT(ErrorOfChain([&](auto& m) { chain(m)->add_inputs("dst"); }),
              ChainErrorAt("params[2].chain.inputs[1]", "is not a READ buffer argument"));
  EXPECT_THAT(ErrorOfChain([&](auto& m) { chain(m)->add_inputs("src"); }),
              ChainErrorAt("params[2].chain.inputs[1]", "named twice"));
  EXPECT_THAT(ErrorOfChain([&](auto& m) { chain(m)->add_scalars("n"); }),
              ChainErrorAt("params[2].chain.scalars[0]", "per-launch F32 scalar"));
  EXPECT_THAT(ErrorOfChain([&](auto& m) { chain(m)->add_scalars("exp"); }),
              ChainErrorAt("params[2].chain.scalars[0]", "has a meaning in chains"));
  EXPECT_THAT(
      ErrorOfChain([](auto& m) { m.mutable_arguments(1)->mutable_buffer()->set_dtype("F64"); }),
      ChainErrorAt("params[2].chain.inputs[0]", "may be F64"));
  EXPECT_THAT(
      ErrorOfChain([](auto& m) { m.mutable_arguments(0)->mutable_buffer()->set_dtype("F64"); }),
      ChainErrorAt("check[0].output", "may be F64"));
  EXPECT_THAT(ErrorOfChain([](auto& m) {
                m.add_headers("chain_f.h");
                m.add_files()->set_name("chain_f.h");
              }),
              ChainErrorAt("headers", "generated for f"));
}

TEST(ChainTemplateTest, PresetsAndDefaultsOfChainsAreReadWithTheTemplate) {
  const auto chain = [](v1::KernelTemplate& m) { return m.mutable_params(2)->mutable_chain(); };
  EXPECT_THAT(ErrorOfChain([&](auto& m) { chain(m)->set_default_("twice"); }), IsOk());
  EXPECT_THAT(ErrorOfChain([&](auto& m) { chain(m)->set_default_("thrice"); }),
              ChainErrorAt("params[2].chain.default", "column 1"));
  EXPECT_THAT(ErrorOfChain([&](auto& m) { chain(m)->mutable_presets(0)->set_expression("src +"); }),
              ChainErrorAt("params[2].chain.presets[0].expression", "column 6"));
  EXPECT_THAT(ErrorOfChain([&](auto& m) { chain(m)->mutable_presets(0)->set_name("src"); }),
              ChainErrorAt("params[2].chain.presets[0].name", "named twice"));
  EXPECT_THAT(ErrorOfChain([&](auto& m) {
                (*chain(m)->mutable_presets(0)->mutable_params())["T"] = "F8E4M3";
              }),
              ChainErrorAt("params[2].chain.presets[0].params", "F8E4M3"));
  EXPECT_THAT(ErrorOfChain(
                  [&](auto& m) { (*chain(m)->mutable_presets(0)->mutable_params())["U"] = "F32"; }),
              ChainErrorAt("params[2].chain.presets[0].params", "not another parameter"));
}

TEST(ChainTemplateTest, ACheckByAChainHasNoReferenceAndNoTolerance) {
  EXPECT_THAT(ErrorOfChain([](auto& m) { m.mutable_check(0)->set_chain("g"); }),
              ChainErrorAt("check[0].chain", "not a chain parameter"));
  EXPECT_THAT(ErrorOfChain([](auto& m) { m.mutable_check(0)->set_reference("ref<${T}>"); }),
              ChainErrorAt("check[0].reference", "together with chain"));
  EXPECT_THAT(ErrorOfChain([](auto& m) { m.mutable_check(0)->set_atol(1e-3); }),
              ChainErrorAt("check[0]", "has its own"));
}

TEST(ChainTemplateTest, ExpressionsKnowWhatAChainReads) {
  EXPECT_THAT(ErrorOfChain([](auto& m) {
                m.mutable_work()->set_bytes("n * (1 + f.src)");
                m.mutable_work()->set_flops("n * f.operations");
              }),
              IsOk());
  EXPECT_THAT(ErrorOfChain([](auto& m) { m.mutable_work()->set_bytes("n * f.dst"); }),
              ChainErrorAt("work.bytes", "unknown name"));
  EXPECT_THAT(ErrorOfChain([](auto& m) { m.mutable_work()->set_bytes("n * f"); }),
              ChainErrorAt("work.bytes", "an operator chain where a number"));
}

TEST(ChainTemplateTest, ATypeMayBeThatOfAnother) {
  const std::string more = R"pb(params {
                                  name: "U"
                                  dtype {
                                    values: [ F32, F16, BF16 ]
                                    default_from: "T"
                                  }
                                })pb";
  v1::KernelTemplate message = ChainMessage(kChainless);
  message.MergeFrom(ChainMessage(more));
  const absl::StatusOr<KernelTemplatePtr> made = MakeChain(message);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(Problem::Parse(**made, "T=F16 n=5")->ToString(), "T=F16 U=F16 n=5");
  EXPECT_EQ(Problem::Parse(**made, "T=F16 U=BF16 n=5")->ToString(), "T=F16 U=BF16 n=5");
  const auto error = [&](const std::function<void(v1::DtypeParameter&)>& change) {
    v1::KernelTemplate changed = message;
    change(*changed.mutable_params(2)->mutable_dtype());
    return MakeChain(changed).status();
  };
  const std::string path = "params[2].dtype.default_from";
  EXPECT_THAT(error([](auto& dtype) { dtype.set_default_from("U"); }),
              ChainErrorAt(path, "before this one"));
  EXPECT_THAT(error([](auto& dtype) { dtype.set_default_from("n"); }),
              ChainErrorAt(path, "dtype parameter"));
  EXPECT_THAT(error([](auto& dtype) { dtype.clear_values(), dtype.add_values(v1::F16); }),
              ChainErrorAt(path, "may be F32"));
  EXPECT_THAT(error([](auto& dtype) { dtype.set_default_(v1::F16); }),
              ChainErrorAt(path, "together"));
}

}  // namespace
}  // namespace hone
