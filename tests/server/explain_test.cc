// Explaining tunings over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DeviceCeilings SomeCeilings() {
  DeviceCeilings ceilings;
  ceilings.ceilings = {{"copy", 4000, "GB/s", "16-byte accesses"},
                       {"f32", 60, "TFLOP/s", ""},
                       {"launch", 1500, "ns", ""}};
  ceilings.driver = "580.0";
  return ceilings;
}

class ExplainTest : public ::testing::Test {
 protected:
  // Every config takes 100 us times VEC, and XBLOCK=256 a tenth more; 320 MB are moved.
  void Tune(const std::string& more = "") {
    for (const int xblock : {64, 128, 256}) {
      for (const int vec : {1, 4}) {
        server_.profiler().SetTiming(absl::StrCat("XBLOCK=", xblock, " VEC=", vec),
                                     {100e3 * vec * (xblock == 256 ? 1.1 : 1)});
      }
    }
    grpc::ClientContext context;
    auto reader = client_->Tune(
        &context,
        FromText<v1::TuneRequest>(absl::StrCat(
            "template { name: 'copy' } params { key: 'n' value { integer: 40000000 } } ", more)));
    v1::TuneEvent event;
    while (reader->Read(&event)) {
      if (event.has_started()) key_ = event.started().key();
    }
    const grpc::Status status = reader->Finish();
    tuned_ = status.ok();
  }
  grpc::Status Explain(const std::string& config, v1::ExplainTuningResponse* response,
                       v1::KernelService::Stub* client = nullptr) {
    grpc::ClientContext context;
    v1::ExplainTuningRequest request;
    request.set_key(key_);
    request.set_config(config);
    return (client == nullptr ? client_.get() : client)->ExplainTuning(&context, request, response);
  }

  TestServer server_;
  std::unique_ptr<v1::KernelService::Stub> client_ = server_.Client();
  std::string key_;
  bool tuned_ = false;
};

TEST_F(ExplainTest, AWinnerNearTheCopyCeilingIsBoundByMemory) {
  server_.profiler().SetCeilings(SomeCeilings());
  Tune();
  v1::ExplainTuningResponse reply;
  ASSERT_TRUE(Explain("", &reply).ok());
  EXPECT_EQ(reply.subject().config(), "XBLOCK=64 VEC=1");
  EXPECT_EQ(reply.subject().samples_ns_size(), 0);
  EXPECT_EQ(reply.work_bytes(), 320'000'000);
  EXPECT_EQ(reply.arithmetic(), "F32");
  EXPECT_EQ(reply.bound(), "memory");
  ASSERT_EQ(reply.shares_size(), 2);
  EXPECT_EQ(reply.shares(0).ceiling().name(), "copy");
  EXPECT_NEAR(reply.shares(0).share(), 0.8, 1e-9);
  EXPECT_NEAR(reply.shares(0).achieved(), 3200, 1e-6);
  EXPECT_NEAR(reply.least_ns(), 80e3, 1e-6);
  EXPECT_EQ(reply.default_config().config(), "XBLOCK=64 VEC=1");
  EXPECT_EQ(reply.runner_up().config(), "XBLOCK=128 VEC=1");
  EXPECT_NEAR(reply.runner_up_ratio(), 1, 1e-9);
  EXPECT_GE(reply.noise_share(), 0.01);
  ASSERT_EQ(reply.tunables_size(), 2);
  EXPECT_EQ(reply.tunables(0).name(), "VEC");
  EXPECT_NEAR(reply.tunables(0).matters(), 4, 1e-6);
  EXPECT_NEAR(reply.tunables(1).matters(), 1.1, 1e-6);
  ASSERT_EQ(reply.steps_size(), 1);
  EXPECT_EQ(reply.steps(0).entry(), "copy<float, 64, 1>");
  EXPECT_THAT(reply.steps(0).grid(), ElementsAre(625'000, 1, 1));
  EXPECT_THAT(reply.notes(), IsEmpty());
}

TEST_F(ExplainTest, AnotherCandidateIsExplainedByPartOfItsConfig) {
  server_.profiler().SetCeilings(SomeCeilings());
  Tune();
  v1::ExplainTuningResponse reply;
  ASSERT_TRUE(Explain("XBLOCK=256", &reply).ok());
  EXPECT_EQ(reply.subject().config(), "XBLOCK=256 VEC=1");
  EXPECT_EQ(reply.bound(), "memory");
  EXPECT_EQ(reply.summary().winner().config(), "XBLOCK=64 VEC=1");
  ASSERT_TRUE(Explain("XBLOCK=64 VEC=4", &reply).ok());
  EXPECT_EQ(reply.bound(), "none");
  EXPECT_EQ(Explain("VEC=2", &reply).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Explain("VEC", &reply).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ExplainTest, CeilingsAreMeasuredOnceByTheFirstTune) {
  server_.profiler().SetCeilings(SomeCeilings());
  Tune();
  v1::ExplainTuningResponse reply;
  ASSERT_TRUE(Explain("", &reply).ok());
  EXPECT_EQ(reply.ceilings().ceilings_size(), 3);
  EXPECT_EQ(reply.ceilings().driver(), "580.0");
  Tune("force: true");
  ASSERT_TRUE(Explain("", &reply).ok());
  EXPECT_EQ(server_.profiler().ceiling_measurements(), 1);
  grpc::ClientContext context;
  v1::GetStatusResponse status;
  ASSERT_TRUE(client_->GetStatus(&context, {}, &status).ok());
  EXPECT_EQ(status.devices(0).ceilings().ceilings(0).name(), "copy");
}

TEST_F(ExplainTest, CeilingsThatCouldNotBeMeasuredAreTriedAgainAndTheReasonIsTold) {
  server_.profiler().SetCeilings(absl::InternalError("the kernels do not compile"));
  Tune();
  v1::ExplainTuningResponse reply;
  ASSERT_TRUE(Explain("", &reply).ok());
  EXPECT_EQ(reply.bound(), "unknown");
  EXPECT_EQ(reply.ceilings_missing(), "the kernels do not compile");
  EXPECT_EQ(reply.tunables_size(), 2) << "what needs no ceiling is told all the same";
  server_.profiler().SetCeilings(SomeCeilings());
  ASSERT_TRUE(Explain("", &reply).ok());
  EXPECT_EQ(reply.bound(), "memory");
}

// Reading may not take the device from those who serve on it.
TEST_F(ExplainTest, AReaderDoesNotMakeTheDeviceMeasure) {
  Tune();
  const auto reader = server_.ClientAs({.pid = 1, .uid = 54321, .gid = 54321});
  v1::ExplainTuningResponse reply;
  ASSERT_TRUE(Explain("", &reply, reader.get()).ok());
  EXPECT_THAT(reply.ceilings_missing(), HasSubstr("tuner"));
  EXPECT_EQ(reply.bound(), "unknown");
  EXPECT_LE(server_.profiler().ceiling_measurements(), 1) << "the tune's own";
}

TEST_F(ExplainTest, WhereNothingSurvivedTheRejectionsAreCounted) {
  server_.profiler().SetCeilings(SomeCeilings());
  for (const char* config : {"XBLOCK=64 VEC=1", "XBLOCK=128 VEC=1"}) {
    server_.profiler().RejectOnCheck(
        config, Rejection{.kind = RejectionKind::kWrongResult, .detail = "scripted"});
  }
  Tune("configs: 'XBLOCK=64 VEC=1' configs: 'XBLOCK=128 VEC=1'");
  ASSERT_FALSE(tuned_);
  v1::ExplainTuningResponse reply;
  ASSERT_TRUE(Explain("", &reply).ok());
  EXPECT_FALSE(reply.has_subject());
  EXPECT_EQ(reply.rejected().at("wrong_result"), 2);
  EXPECT_THAT(reply.notes(), Contains("no candidate survived"));
}

TEST_F(ExplainTest, OneTimedConfigProvesNothingAboutOthers) {
  server_.profiler().SetCeilings(SomeCeilings());
  Tune("configs: 'XBLOCK=64 VEC=1'");
  v1::ExplainTuningResponse reply;
  ASSERT_TRUE(Explain("", &reply).ok());
  EXPECT_FALSE(reply.has_runner_up());
  EXPECT_THAT(reply.notes(), Contains(HasSubstr("only one config was timed")));
}

TEST_F(ExplainTest, ErrorsNameTheKey) {
  v1::ExplainTuningResponse reply;
  key_ = "xyz";
  EXPECT_THAT(Explain("", &reply).error_message(), HasSubstr("key"));
  key_ = "abcdef";
  EXPECT_EQ(Explain("", &reply).error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace hone
