// Tune over gRPC: the stream, its end and its cancellation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <thread>

#include "runtime/base/notification.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Everything one Tune call says.
struct Transcript {
  v1::TuneStarted started;
  std::map<std::string, v1::MeasurementInfo> candidates;  // the latest of each config
  std::optional<v1::TuneFinished> finished;
  int heartbeats = 0;
  grpc::Status status;

  std::map<std::string, std::string> RejectionKinds() const {
    std::map<std::string, std::string> kinds;
    for (const auto& [config, candidate] : candidates) {
      if (candidate.has_rejection()) kinds[config] = candidate.rejection().kind();
    }
    return kinds;
  }
};

v1::TuneRequest CopyRequest(const std::string& more = "") {
  auto request = FromText<v1::TuneRequest>(
      "template { name: 'copy' } params { key: 'n' value { integer: 4096 } }");
  request.MergeFrom(FromText<v1::TuneRequest>(more));
  return request;
}

Transcript RunTune(v1::KernelService::Stub& client, const v1::TuneRequest& request) {
  Transcript transcript;
  grpc::ClientContext context;
  auto reader = client.Tune(&context, request);
  v1::TuneEvent event;
  while (reader->Read(&event)) {
    switch (event.kind_case()) {
      case v1::TuneEvent::kStarted:
        transcript.started = event.started();
        break;
      case v1::TuneEvent::kCandidate:
        transcript.candidates[event.candidate().config()] = event.candidate();
        break;
      case v1::TuneEvent::kProgress:
        ++transcript.heartbeats;
        break;
      case v1::TuneEvent::kFinished:
        transcript.finished = event.finished();
        break;
      case v1::TuneEvent::KIND_NOT_SET:
        ADD_FAILURE() << "an empty event";
    }
  }
  transcript.status = reader->Finish();
  return transcript;
}

class TuneTest : public ::testing::Test {
 protected:
  Transcript Tune(const v1::TuneRequest& request) { return RunTune(*server_.Client(), request); }

  TestServer server_;
};

TEST_F(TuneTest, TellsEveryCandidateAndTheWinner) {
  server_.profiler().SetTiming("XBLOCK=256 VEC=4", {64, 65, 63});
  const Transcript transcript = Tune(CopyRequest());
  ASSERT_TRUE(transcript.status.ok()) << transcript.status.error_message();
  EXPECT_EQ(transcript.started.candidates(), 6);
  EXPECT_EQ(transcript.started.key().size(), 64u);
  EXPECT_EQ(transcript.started.default_config(), "XBLOCK=64 VEC=1");
  EXPECT_EQ(transcript.started.work_bytes(), 2 * 4096 * 4);
  EXPECT_FALSE(transcript.started.joined());
  EXPECT_EQ(transcript.candidates.size(), 6u);
  ASSERT_TRUE(transcript.finished.has_value());
  EXPECT_EQ(transcript.finished->winner().config(), "XBLOCK=256 VEC=4");
  EXPECT_EQ(transcript.finished->measured(), 6);
  EXPECT_NEAR(transcript.finished->winner().gb_per_s(), 2 * 4096 * 4 / 64.0, 1e-6);
  EXPECT_TRUE(transcript.finished->winner().verified());
  EXPECT_GE(transcript.finished->kernel().variants_size(), 1);
}

// scenario P24, scenario P27
TEST_F(TuneTest, FailingCandidatesAreReportedByKindAndTheOthersAreTimed) {
  server_.compiler().FailFor("copy<float, 64, 4>", Rejection{.kind = RejectionKind::kCompile,
                                                             .detail = "static assertion failed"});
  server_.compiler().SetResources("copy<float, 128, 4>",
                                  {.symbol = "", .registers = 32, .static_shared_bytes = 233'472});
  server_.profiler().RejectOnCheck(
      "XBLOCK=256 VEC=1",
      Rejection{.kind = RejectionKind::kWrongResult, .detail = "max error 3.5 at element 17"});
  server_.profiler().SetTiming("XBLOCK=256 VEC=1", {1});  // fastest, and wrong
  const Transcript transcript = Tune(CopyRequest());
  ASSERT_TRUE(transcript.status.ok()) << transcript.status.error_message();
  EXPECT_THAT(transcript.RejectionKinds(),
              UnorderedElementsAre(std::pair("XBLOCK=64 VEC=4", "compile"),
                                   std::pair("XBLOCK=128 VEC=4", "resources"),
                                   std::pair("XBLOCK=256 VEC=1", "wrong_result")));
  const v1::Rejection& shared = transcript.candidates.at("XBLOCK=128 VEC=4").rejection();
  EXPECT_EQ(shared.needed(), 233'472);
  EXPECT_EQ(shared.limit(), FakeDeviceInfo().limits.shared_bytes_per_block_max);
  EXPECT_EQ(server_.profiler().checks_of("XBLOCK=128 VEC=4"), 0) << "refused without a launch";
  EXPECT_EQ(transcript.finished->measured(), 3);
  EXPECT_EQ(transcript.finished->rejected(), 3);
  EXPECT_FALSE(transcript.finished->winner().has_rejection());

  // All of it is there to be looked up afterwards, rejected ones included.
  grpc::ClientContext context;
  v1::GetTuningRequest request;
  request.set_key(transcript.started.key().substr(0, 8));
  v1::GetTuningResponse tuning;
  ASSERT_TRUE(server_.Client()->GetTuning(&context, request, &tuning).ok());
  EXPECT_EQ(tuning.measurements_size(), 6);
  EXPECT_EQ(tuning.summary().rejected(), 3);
  EXPECT_EQ(tuning.summary().winner().config(), transcript.finished->winner().config());
}

// scenario P30
TEST_F(TuneTest, TheSameTuneAgainMeasuresNothing) {
  ASSERT_TRUE(Tune(CopyRequest()).status.ok());
  const int samples = server_.profiler().samples();
  const Transcript again = Tune(CopyRequest());
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(again.finished->measured(), 0);
  EXPECT_EQ(again.finished->reused(), 6);
  EXPECT_EQ(server_.profiler().samples(), samples);
}

TEST_F(TuneTest, ASecondCallerJoinsAndSeesEverything) {
  Notification checking, go_on;
  server_.profiler().OnCheck([&](const ProfileCandidate&) {
    if (!checking.HasBeenNotified()) checking.Notify();
    go_on.WaitForNotification();
  });
  Transcript first, second;
  std::thread one([&] { first = RunTune(*server_.Client(), CopyRequest()); });
  checking.WaitForNotification();
  grpc::ClientContext context;
  auto client = server_.Client();
  auto reader = client->Tune(&context, CopyRequest());
  v1::TuneEvent event;
  ASSERT_TRUE(reader->Read(&event));
  while (!event.has_started()) ASSERT_TRUE(reader->Read(&event));
  EXPECT_TRUE(event.started().joined());
  go_on.Notify();
  int candidates = 0;
  while (reader->Read(&event)) candidates += event.has_candidate() ? 1 : 0;
  EXPECT_TRUE(reader->Finish().ok());
  one.join();
  EXPECT_TRUE(first.status.ok());
  EXPECT_GE(candidates, 6);
  EXPECT_EQ(server_.profiler().begins(), 1);
}

// scenario P41
TEST_F(TuneTest, CancellingTheOnlyCallStopsTheTuneAndKeepsWhatWasMeasured) {
  grpc::ClientContext context;
  Notification third, go_on;
  int checks = 0;
  server_.profiler().OnCheck([&](const ProfileCandidate&) {
    if (++checks != 3) return;
    third.Notify();
    go_on.WaitForNotification();
  });
  auto client = server_.Client();
  auto reader = client->Tune(&context, CopyRequest());
  third.WaitForNotification();
  context.TryCancel();
  v1::TuneEvent event;
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The stream leaves the service's table after its clean-up has been started.
  while (server_.context().streams.count() > 0) std::this_thread::yield();
  go_on.Notify();
  // The lane is free again once the tune has ended: the next tune reuses what was measured.
  server_.profiler().OnCheck(nullptr);
  const Transcript again = Tune(CopyRequest());
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_GE(again.started.already_measured(), 2) << "what the first tune measured is kept";
  EXPECT_LT(again.started.already_measured(), 6) << "the first tune did not run to its end";
}

// scenario P42
TEST(TuneHeartbeatTest, AQuietPhaseStillSpeaks) {
  TestServerOptions options;
  options.limits.heartbeat = absl::Milliseconds(20);
  TestServer server(options);
  Notification go_on;
  server.profiler().OnBegin([&](const ProfileProblem&) { go_on.WaitForNotification(); });
  auto client = server.Client();
  grpc::ClientContext context;
  auto reader = client->Tune(&context, CopyRequest());
  v1::TuneEvent event;
  for (int beats = 0; beats < 3;) {
    ASSERT_TRUE(reader->Read(&event));
    if (event.has_progress()) ++beats;
  }
  go_on.Notify();
  while (reader->Read(&event)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
}

TEST(TuneWithoutDevicesTest, FailsAndSaysThatThereIsNoDevice) {
  TestServer server({.devices = {}});
  const Transcript transcript =
      RunTune(*server.Client(), CopyRequest("target { architecture: 'sm_90a' }"));
  EXPECT_EQ(transcript.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(transcript.status.error_message(), HasSubstr("sm_90a"));
  EXPECT_EQ(DetailIn(transcript.status).reason(), "NO_DEVICE");
}

TEST_F(TuneTest, NoSurvivorIsAnErrorThatCountsTheReasons) {
  server_.compiler().FailFor("copy<",
                             Rejection{.kind = RejectionKind::kCompile, .detail = "no such type"});
  const Transcript transcript = Tune(CopyRequest());
  EXPECT_EQ(transcript.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(DetailIn(transcript.status).reason(), "NO_CANDIDATE_SURVIVED");
  EXPECT_EQ(transcript.candidates.size(), 6u) << "each is told with its reason";
}

TEST_F(TuneTest, ErrorsNameFieldValueAndWhatIsRight) {
  const auto message = [&](const std::string& more) {
    const grpc::Status status = Tune(CopyRequest(more)).status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    return status.error_message();
  };
  EXPECT_THAT(message("strategy: 'clever'"),
              AllOf(HasSubstr("strategy"), HasSubstr("clever"), HasSubstr("exhaustive")));
  EXPECT_THAT(message("budget { evaluations_max: -1 }"), HasSubstr("budget.evaluations_max"));
  EXPECT_THAT(message("budget { seconds_max: nan }"), HasSubstr("budget.seconds_max"));
  EXPECT_THAT(message("configs: 'XBLOCK'"), HasSubstr("configs[0]"));
  EXPECT_THAT(message("inline_template { name: 'x' }"), HasSubstr("inline_template"));
  EXPECT_THAT(message("params { key: 'n' value { integer: -1 } }"), HasSubstr("n"));
}

TEST_F(TuneTest, AnInlineTemplateIsRegisteredAndTuned) {
  v1::TuneRequest request = CopyRequest();
  request.clear_template_();
  *request.mutable_inline_template() = CopyTemplate("mine");
  const Transcript transcript = Tune(request);
  ASSERT_TRUE(transcript.status.ok()) << transcript.status.error_message();
  EXPECT_EQ(transcript.finished->kernel().template_name(), "mine");
  EXPECT_TRUE(server_.catalog().Find("mine", "").ok());
}

TEST_F(TuneTest, AnEditedInlineTemplateIsTunedUnderTheSameVersion) {
  v1::TuneRequest request = CopyRequest();
  request.clear_template_();
  *request.mutable_inline_template() = CopyTemplate("mine");
  const Transcript before = Tune(request);
  ASSERT_TRUE(before.status.ok()) << before.status.error_message();
  request.mutable_inline_template()->mutable_files(0)->mutable_content()->append("// edited\n");
  const Transcript after = Tune(request);
  ASSERT_TRUE(after.status.ok()) << after.status.error_message();
  EXPECT_NE(before.finished->kernel().template_digest(),
            after.finished->kernel().template_digest());
}

}  // namespace
}  // namespace hone
