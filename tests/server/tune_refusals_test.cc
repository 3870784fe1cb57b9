// Every wrong input of a tune is refused by field and limit before anything is compiled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

// A request that is right but for one thing, and what is said about that.
struct Refusal {
  const char* name;
  std::function<void(v1::TuneRequest&)> spoil;
  StatusCode code;
  std::vector<std::string> words;  // all of them: the field, the value, what is right
};

std::function<void(v1::TuneRequest&)> Merge(const std::string& text) {
  return [text](v1::TuneRequest& request) { request.MergeFrom(FromText<v1::TuneRequest>(text)); };
}

std::function<void(v1::TuneRequest&)> Inline(std::function<void(v1::KernelTemplate&)> spoil) {
  return [spoil = std::move(spoil)](v1::TuneRequest& request) {
    request.clear_template_();
    *request.mutable_inline_template() = CopyTemplate("mine");
    spoil(*request.mutable_inline_template());
  };
}

std::function<void(v1::TuneRequest&)> Target(std::function<void(v1::Target&)> spoil) {
  return [spoil = std::move(spoil)](v1::TuneRequest& request) { spoil(*request.mutable_target()); };
}

v1::DeviceFingerprint FakeFingerprint() {
  const DeviceFingerprint& facts = FakeDeviceInfo().fingerprint;
  v1::DeviceFingerprint proto;
  proto.set_kind(facts.kind);
  proto.set_architecture(facts.architecture);
  proto.set_sm_count(facts.sm_count);
  proto.set_clock_khz(facts.clock_khz);
  proto.set_memory_clock_khz(facts.memory_clock_khz);
  proto.set_memory_bus_bits(facts.memory_bus_bits);
  proto.set_l2_bytes(facts.l2_bytes);
  proto.set_memory_bytes(facts.memory_bytes);
  return proto;
}

constexpr auto kInvalid = StatusCode::INVALID_ARGUMENT;

const std::vector<Refusal>& Refusals() {
  static const auto& refusals = *new std::vector<Refusal>{
      // template and inline_template; fields of a template go by their path in it, as in its file
      {"NoTemplate", [](auto& r) { r.clear_template_(); }, kInvalid, {"template"}},
      {"UnknownTemplate",
       [](auto& r) { r.mutable_template_()->set_name("copi"); },
       StatusCode::NOT_FOUND,
       {"copi", "copy"}},
      {"UnknownDigest",
       [](auto& r) { r.mutable_template_()->set_digest(std::string(64, 'a')); },
       StatusCode::NOT_FOUND,
       {"aaaa"}},
      {"TemplateNameWithNul",
       [](auto& r) { r.mutable_template_()->set_name(std::string("copy\0x", 6)); },
       kInvalid,
       {"template.name", "NUL"}},
      {"BothTemplates",
       [](auto& r) { *r.mutable_inline_template() = CopyTemplate("mine"); },
       kInvalid,
       {"inline_template", "template"}},
      {"InlineWithoutSource",
       Inline([](auto& t) { t.clear_files(); }),
       kInvalid,
       {"source", "copy.cu"}},
      {"InlineBadName", Inline([](auto& t) { t.set_name("Mine!"); }), kInvalid, {"name", "Mine!"}},
      {"InlineDefaultOutsideValues",
       Inline([](auto& t) { t.mutable_tunables(0)->set_default_(7); }),
       kInvalid,
       {"tunables[0].default", "7"}},
      {"InlineBadConstraint",
       Inline([](auto& t) { t.add_constraints("XBLOCK +"); }),
       kInvalid,
       {"constraints[0]", "XBLOCK +"}},
      {"InlineBadOption",
       Inline([](auto& t) { t.add_options("--run-program"); }),
       kInvalid,
       {"options", "--run-program"}},
      // params
      {"UnknownParam",
       Merge("params { key: 'm' value { integer: 1 } }"),
       kInvalid,
       {"params.m", "T, n"}},
      {"MissingParam",
       [](auto& r) { r.mutable_params()->erase("n"); },
       kInvalid,
       {"params.n", "not given", "integer"}},
      {"ParamWithoutValue", Merge("params { key: 'n' value {} }"), kInvalid, {"params[n]"}},
      {"NegativeSize",
       Merge("params { key: 'n' value { integer: -1 } }"),
       kInvalid,
       {"params.n", "-1", "at least 0"}},
      {"SizeBeyondTheDomain",
       Merge("params { key: 'n' value { integer: 9223372036854775807 } }"),
       kInvalid,
       {"params.n", "9223372036854775807"}},
      {"SizeAsText",
       Merge("params { key: 'n' value { text: 'many' } }"),
       kInvalid,
       {"params.n", "many"}},
      {"SizeAsTextBeyondInt64",
       Merge("params { key: 'n' value { text: '99999999999999999999' } }"),
       kInvalid,
       {"params.n", "99999999999999999999"}},
      {"DtypeAsNumber",
       Merge("params { key: 'T' value { integer: 3 } }"),
       kInvalid,
       {"params.T", "F32, F16"}},
      {"DtypeNotDeclared",
       Merge("params { key: 'T' value { text: 'F64' } }"),
       kInvalid,
       {"params.T", "F64", "F32, F16"}},
      {"BytesBeyondInt64",
       Merge("params { key: 'n' value { integer: 4611686018427387904 } }"),
       kInvalid,
       {"params", "n=4611686018427387904", "2^63-1"}},
      {"BytesBeyondTheDevice",
       Merge("params { key: 'n' value { integer: 1099511627776 } }"),
       StatusCode::RESOURCE_EXHAUSTED,
       {"params", "n=1099511627776", "8796093022208",
        absl::StrCat(FakeDeviceInfo().fingerprint.memory_bytes)}},
      // target
      {"ArchitectureIsNoWord",
       Target([](auto& t) { t.set_architecture("sm 90"); }),
       kInvalid,
       {"target.architecture", "sm 90"}},
      {"UnknownArchitecture",
       Target([](auto& t) { t.set_architecture("gfx942"); }),
       kInvalid,
       {"target.architecture", "gfx942", "sm_NN"}},
      {"ArchitectureOfNoDevice",
       Target([](auto& t) { t.set_architecture("sm_75"); }),
       StatusCode::FAILED_PRECONDITION,
       {"target", "sm_75", FakeDeviceInfo().architecture}},
      {"AnotherDevice",
       Target([](auto& t) {
         *t.mutable_device() = FakeFingerprint();
         t.mutable_device()->set_sm_count(46);
       }),
       StatusCode::FAILED_PRECONDITION,
       {"target", "fingerprint"}},
      {"DeviceWithNegativeFacts",
       Target([](auto& t) {
         *t.mutable_device() = FakeFingerprint();
         t.mutable_device()->set_l2_bytes(-1);
       }),
       kInvalid,
       {"target.device", "negative"}},
      {"NegativeDeviceIndex",
       Target([](auto& t) { t.set_device_index(-1); }),
       kInvalid,
       {"target.device_index", "-1"}},
      {"DeviceIndexThatDoesNotExist",
       Target([](auto& t) { t.set_device_index(7); }),
       kInvalid,
       {"target.device_index", "7", "0 to 0"}},
      {"DeviceIndexBesideAnArchitecture",
       Target([](auto& t) {
         t.set_device_index(1);
         t.set_architecture("sm_90a");
       }),
       kInvalid,
       {"target.device_index", "target.architecture"}},
      {"NegativeDriver",
       Target([](auto& t) { t.set_driver_version(-1); }),
       kInvalid,
       {"target.driver_version", "-1"}},
      // budget
      {"NegativeEvaluations",
       Merge("budget { evaluations_max: -1 }"),
       kInvalid,
       {"budget.evaluations_max", "-1", "10000000"}},
      {"TooManyEvaluations",
       Merge("budget { evaluations_max: 2147483647 }"),
       kInvalid,
       {"budget.evaluations_max", "2147483647", "10000000"}},
      {"NegativeSeconds",
       Merge("budget { seconds_max: -0.5 }"),
       kInvalid,
       {"budget.seconds_max", "-0.5"}},
      {"NanSeconds", Merge("budget { seconds_max: nan }"), kInvalid, {"budget.seconds_max", "nan"}},
      {"InfiniteSeconds",
       Merge("budget { seconds_max: inf }"),
       kInvalid,
       {"budget.seconds_max", "inf", "30 days"}},
      {"TooManySeconds",
       Merge("budget { seconds_max: 1e300 }"),
       kInvalid,
       {"budget.seconds_max", "1e+300", "30 days"}},
      {"NegativePatience", Merge("budget { patience: -1 }"), kInvalid, {"budget.patience", "-1"}},
      {"TooMuchPatience",
       Merge("budget { patience: 10000001 }"),
       kInvalid,
       {"budget.patience", "10000001", "10000000"}},
      // strategy
      {"UnknownStrategy",
       Merge("strategy: 'clever'"),
       kInvalid,
       {"strategy", "clever", "exhaustive", "model"}},
      {"HugeStrategy",
       [](auto& r) { r.set_strategy(std::string(1 << 20, 's')); },
       kInvalid,
       {"strategy"}},
      // configs
      {"ConfigWithoutValue",
       Merge("configs: 'XBLOCK=64 VEC=1' configs: 'XBLOCK'"),
       kInvalid,
       {"configs[1]", "XBLOCK", "NAME=INTEGER"}},
      {"ConfigValueIsNoInteger",
       Merge("configs: 'XBLOCK=64 VEC=one'"),
       kInvalid,
       {"configs[0]", "VEC=one"}},
      {"ConfigValueBeyondInt64",
       Merge("configs: 'XBLOCK=64 VEC=99999999999999999999'"),
       kInvalid,
       {"configs[0]", "VEC=99999999999999999999"}},
      {"ConfigNamesATunableTwice",
       Merge("configs: 'XBLOCK=64 XBLOCK=128 VEC=1'"),
       kInvalid,
       {"configs[0]", "XBLOCK", "twice"}},
      {"ConfigWithUnknownTunable",
       Merge("configs: 'XBLOCK=64 VEC=1 STAGES=2'"),
       kInvalid,
       {"configs[0]", "STAGES"}},
      {"ConfigWithoutATunable", Merge("configs: 'XBLOCK=64'"), kInvalid, {"configs[0]", "VEC"}},
      {"ConfigValueNotDeclared",
       Merge("configs: 'XBLOCK=96 VEC=1'"),
       kInvalid,
       {"configs[0]", "96", "64, 128, 256"}},
      {"EmptyConfig", Merge("configs: ''"), kInvalid, {"configs[0]"}},
      {"ConfigTwice",
       Merge("configs: 'XBLOCK=64 VEC=1' configs: 'XBLOCK=64 VEC=1'"),
       kInvalid,
       {"configs[1]", "given twice"}},
      {"ConfigThatBreaksAConstraint",
       [](auto& r) {
         r.clear_template_();
         *r.mutable_inline_template() = CopyTemplate("narrow");
         r.mutable_inline_template()->add_constraints("XBLOCK * VEC <= 256");
         r.add_configs("XBLOCK=128 VEC=4");
       },
       kInvalid,
       {"configs[0]", "XBLOCK * VEC <= 256"}},
      {"TooManyConfigs",
       [](auto& r) {
         for (int i = 0; i < 10'001; ++i) r.add_configs("XBLOCK=64 VEC=1");
       },
       kInvalid,
       {"configs", "10001", "10000"}},
      {"ConfigWithNul",
       [](auto& r) { r.add_configs(std::string("XBLOCK\0", 7)); },
       kInvalid,
       {"configs[0]", "NUL"}},
      // no config is left
      {"ConstraintThatNothingSatisfies",
       Inline([](auto& t) { t.add_constraints("XBLOCK > 1024"); }),
       StatusCode::FAILED_PRECONDITION,
       {"mine", "constraints"}},
  };
  return refusals;
}

class TuneRefusalsTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(TuneRefusalsTest, NamesTheFieldBeforeAnythingIsCompiled) {
  TestServer server;
  auto request = FromText<v1::TuneRequest>(
      "template { name: 'copy' } params { key: 'n' value { integer: 4096 } }");
  GetParam().spoil(request);
  grpc::ClientContext context;
  auto client = server.Client();
  auto reader = client->Tune(&context, request);
  v1::TuneEvent event;
  bool started = false;
  while (reader->Read(&event)) started |= event.has_started();
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), GetParam().code) << status.error_message();
  for (const std::string& word : GetParam().words) {
    EXPECT_THAT(status.error_message(), HasSubstr(word));
  }
  EXPECT_LT(status.error_message().size(), 2000u);
  EXPECT_FALSE(started);
  EXPECT_EQ(server.compiler().calls(), 0);
  EXPECT_EQ(server.profiler().begins(), 0);
  EXPECT_EQ(server.store().counters().tuning_puts, 0);
}

INSTANTIATE_TEST_SUITE_P(EachField, TuneRefusalsTest, ::testing::ValuesIn(Refusals()),
                         [](const auto& refusal) { return std::string(refusal.param.name); });

TEST(TuneRefusalTest, DeviceMemoryComesWithBothNumbers) {
  TestServer server;
  grpc::ClientContext context;
  auto client = server.Client();
  auto reader = client->Tune(
      &context, FromText<v1::TuneRequest>("template { name: 'copy' } "
                                          "params { key: 'n' value { integer: 1099511627776 } }"));
  v1::TuneEvent event;
  while (reader->Read(&event)) {
  }
  const v1::ErrorDetail detail = DetailIn(reader->Finish());
  EXPECT_EQ(detail.reason(), "DEVICE_MEMORY");
  EXPECT_EQ(detail.needed(), int64_t{2} * 4 << 40);
  EXPECT_EQ(detail.available(), FakeDeviceInfo().fingerprint.memory_bytes);
}

TEST(TuneRefusalTest, WaitingForATuneIsRefusedForTheSameReasons) {
  TestServer server;
  grpc::ClientContext context;
  v1::GetKernelResponse response;
  const grpc::Status status = server.Client()->GetKernel(
      &context,
      FromText<v1::GetKernelRequest>("template { name: 'copy' } policy: WAIT_TUNED "
                                     "params { key: 'n' value { integer: 1099511627776 } }"),
      &response);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_EQ(server.compiler().calls(), 0);
}

TEST(TuneRefusalTest, ARefusedTuneRegistersNothing) {
  TestServer server;
  v1::TuneRequest request;
  *request.mutable_inline_template() = CopyTemplate("mine");
  request.mutable_budget()->set_patience(-1);
  grpc::ClientContext context;
  auto client = server.Client();
  auto reader = client->Tune(&context, request);
  v1::TuneEvent event;
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), kInvalid);
  EXPECT_EQ(server.store().counters().template_puts, 0);
}

// The largest that is allowed is not refused.
TEST(TuneRefusalTest, LimitsThemselvesAreAllowed) {
  TestServer server;
  grpc::ClientContext context;
  auto client = server.Client();
  auto reader = client->Tune(
      &context, FromText<v1::TuneRequest>(
                    "template { name: 'copy' } params { key: 'n' value { integer: 64 } }"
                    "budget { evaluations_max: 10000000 seconds_max: 2592000 "
                    "patience: 10000000 } seed: 18446744073709551615 "
                    "configs: 'XBLOCK=64 VEC=1' configs: 'XBLOCK=64 VEC=4'"));
  v1::TuneEvent event;
  while (reader->Read(&event)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace hone
