// GetKernel over gRPC, with the real cache.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "runtime/base/notification.h"
#include "tests/server/get_kernel_fixture.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class GetKernelTest : public GetKernelFixture {};

TEST_F(GetKernelTest, AnUntunedKernelIsTheDefaultAndIsCompiledOnce) {
  v1::GetKernelResponse first, second;
  ASSERT_TRUE(Get("", &first).ok());
  EXPECT_EQ(first.source(), v1::DEFAULT);
  EXPECT_EQ(first.kernel().template_name(), "copy");
  EXPECT_EQ(first.kernel().architecture(), FakeDeviceInfo().architecture);
  ASSERT_GE(first.kernel().variants_size(), 1);
  EXPECT_EQ(first.kernel().variants(0).config(), "XBLOCK=64 VEC=1");
  EXPECT_THAT(first.kernel().variants(0).artifact_bytes(), HasSubstr("fake-artifact"));
  EXPECT_EQ(first.kernel().params().at("T").text(), "F32");
  EXPECT_EQ(first.kernel().params().at("n").integer(), 1000);
  const int64_t compiles = server_.compiler().calls();
  ASSERT_TRUE(Get("", &second).ok());
  EXPECT_EQ(server_.compiler().calls(), compiles) << "the second call is a hit";
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(first, second))
      << first.ShortDebugString() << "\n"
      << second.ShortDebugString();
}

TEST_F(GetKernelTest, WaitTunedAnswersWithAVerifiedWinner) {
  server_.profiler().SetTiming("XBLOCK=128 VEC=4", {100, 101, 99});
  v1::GetKernelResponse response;
  const grpc::Status status = Get("policy: WAIT_TUNED", &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response.source(), ::testing::AnyOf(v1::TUNED, v1::BUCKET));
  EXPECT_EQ(response.kernel().variants(0).config(), "XBLOCK=128 VEC=4");
  EXPECT_TRUE(response.kernel().variants(0).measurement().verified());
  EXPECT_GT(response.kernel().variants(0).measurement().gb_per_s(), 0);
  EXPECT_EQ(response.answered_by_key().size(), 64u);
  EXPECT_EQ(response.answered_by_params().at("n").integer(), 512) << "the bucket of 1000";
}

// scenario P20
TEST_F(GetKernelTest, ThirtyTwoClientsOnOneColdKeyCompileOnceAndTuneOnce) {
  Notification all_wait;
  server_.profiler().OnBegin([&](const ProfileProblem&) { all_wait.WaitForNotification(); });
  std::vector<v1::GetKernelResponse> responses(32);
  std::vector<std::thread> clients;
  for (auto& response : responses) {
    clients.emplace_back([&, client = server_.Client()] {
      EXPECT_TRUE(Get(*client, "policy: WAIT_TUNED", &response).ok());
    });
  }
  // The tune begins to measure only when everyone has come.
  const auto joined = [&] {
    return server_.context().gate->Get()->cache->Counters().at("joined_waiters");
  };
  while (joined() < 31) std::this_thread::yield();
  all_wait.Notify();
  for (std::thread& client : clients) client.join();
  for (const auto& response : responses) {
    EXPECT_EQ(response.kernel().variants(0).artifact().sha256(),
              responses[0].kernel().variants(0).artifact().sha256());
  }
  EXPECT_EQ(server_.profiler().begins(), 1) << "one tuning session";
  // Six candidates and the check program, each once.
  EXPECT_EQ(server_.compiler().calls(), 7);
  EXPECT_EQ(joined(), 31);
}

// scenario P20
TEST_F(GetKernelTest, SixtyFourCallersOfOneKeyShareOneCompileOneTuneAndOneArtifact) {
  const auto counter = [&](const std::string& name) {
    return server_.context().gate->Get()->cache->Counters().at(name);
  };
  Mutex mutex;
  std::set<std::string> hashes;
  const auto add = [&](const v1::TunedKernel& kernel) {
    MutexLock lock(&mutex);
    hashes.insert(kernel.variants(0).artifact().sha256());
  };
  server_.compiler().Block();
  std::vector<std::thread> callers;
  for (int i = 0; i < 32; ++i) {
    callers.emplace_back([&, client = server_.Client()] {
      v1::GetKernelResponse response;
      EXPECT_TRUE(Get(*client, "", &response).ok());
      add(response.kernel());
    });
  }
  while (counter("joined_waiters") < 31) std::this_thread::yield();
  server_.compiler().Unblock();
  for (std::thread& caller : callers) caller.join();
  callers.clear();
  EXPECT_EQ(server_.compiler().CallsFor("copy<"), 1);
  EXPECT_EQ(counter("joined_waiters"), 31);

  // The only candidate is the default, so that the winner is what was served before.
  Notification all_there;
  server_.profiler().OnBegin([&](const ProfileProblem&) { all_there.WaitForNotification(); });
  for (int i = 0; i < 32; ++i) {
    callers.emplace_back([&, client = server_.Client()] {
      grpc::ClientContext context;
      auto reader = client->Tune(
          &context, FromText<v1::TuneRequest>("template { name: 'copy' } configs: 'XBLOCK=64 VEC=1'"
                                              "params { key: 'n' value { integer: 1000 } }"));
      v1::TuneEvent event;
      while (reader->Read(&event)) {
        if (event.has_finished()) add(event.finished().kernel());
      }
      EXPECT_TRUE(reader->Finish().ok());
    });
  }
  while (counter("joined_tunes") < 31) std::this_thread::yield();
  all_there.Notify();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(server_.profiler().begins(), 1) << "one tuning session";
  EXPECT_EQ(counter("joined_tunes"), 31);
  EXPECT_EQ(server_.compiler().CallsFor("copy<"), 1) << "still the one compile";
  EXPECT_EQ(hashes.size(), 1u);
}

TEST_F(GetKernelTest, FrozenNeverCompilesAndSaysWhatIsMissing) {
  const grpc::Status status = Error("policy: FROZEN");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("copy"), HasSubstr("n=1000")));
  EXPECT_EQ(DetailIn(status).reason(), "FROZEN_MISS");
  EXPECT_EQ(server_.compiler().calls(), 0);
}

TEST_F(GetKernelTest, LargeBytesStayOutOfTheReply) {
  v1::GetKernelResponse response;
  ASSERT_TRUE(Get("inline_bytes_max: -1", &response).ok());
  EXPECT_THAT(response.kernel().variants(0).artifact_bytes(), IsEmpty());
  EXPECT_THAT(response.kernel().variants(0).artifact().sha256(), Not(IsEmpty()));
}

TEST_F(GetKernelTest, ErrorsNameFieldValueAndWhatIsRight) {
  grpc::Status status = Error("template { name: 'cpy' }");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("cpy"), HasSubstr("copy")));

  status = Error("params { key: 'T' value { text: 'F64' } }");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("F64"), HasSubstr("F32")));

  status = Error("params { key: 'm' value { integer: 3 } }");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("m"));

  status = Error("params { key: 'n' value { integer: -5 } }");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("-5"));

  status = Error("params { key: 'n' value { } }");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("params[n]"));

  status = Error("max_wait_ms: -1");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("max_wait_ms"), HasSubstr("-1")));

  status = Error("inline_bytes_max: -2");
  EXPECT_THAT(status.error_message(), HasSubstr("inline_bytes_max"));

  // scenario P15
  status = Error("target { device_index: 7 }");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("device_index"), HasSubstr("7")));

  status = Error("target { architecture: 'sm 90' }");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("target.architecture"));
}

TEST_F(GetKernelTest, ACompileErrorCarriesItsReasonAndExcerpt) {
  CompileOutcome outcome;
  outcome.rejection = Rejection{.kind = RejectionKind::kCompile, .detail = "no such type"};
  outcome.excerpt = "copy.cu(3): error: no such type";
  outcome.log = "the whole log";
  outcome.error_count = 2;
  server_.compiler().FailFor("copy<", outcome);
  const grpc::Status status = Error("");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const v1::ErrorDetail detail = DetailIn(status);
  EXPECT_EQ(detail.reason(), "COMPILE_FAILED");
  EXPECT_THAT(detail.excerpt(), HasSubstr("copy.cu(3)"));
  EXPECT_EQ(detail.error_count(), 2);

  grpc::ClientContext context;
  v1::GetLogRequest request;
  request.set_log_id(detail.log_id());
  v1::GetLogResponse log;
  ASSERT_TRUE(server_.Client()->GetLog(&context, request, &log).ok());
  EXPECT_EQ(log.log(), "the whole log");
}

// scenario P41
TEST_F(GetKernelTest, ACallersDeadlineDoesNotLoseTheCompile) {
  server_.compiler().Block();
  auto client = server_.Client();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  v1::GetKernelResponse response;
  const auto request = FromText<v1::GetKernelRequest>(
      "template { name: 'copy' } params { key: 'n' value { integer: 1000 } }");
  const grpc::Status late = client->GetKernel(&context, request, &response);
  EXPECT_EQ(late.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  server_.compiler().Unblock();
  ASSERT_TRUE(Get("", &response).ok());
  EXPECT_EQ(server_.compiler().CallsFor("copy<"), response.kernel().variants_size())
      << "the abandoned compile served the second call";
}

TEST_F(GetKernelTest, MaxWaitBoundsTheWaitWithAnAnswer) {
  server_.compiler().Block();
  v1::GetKernelResponse response;
  const grpc::Status status = Get("max_wait_ms: 50", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("max_wait_ms"));
  server_.compiler().Unblock();
}

std::vector<DeviceInfo> TwoDevices() {
  DeviceInfo hopper = FakeDeviceInfo();
  hopper.architecture = hopper.fingerprint.architecture = "sm_90";
  DeviceInfo ampere = FakeDeviceInfo();
  ampere.index = 1;
  ampere.architecture = ampere.fingerprint.architecture = "sm_86";
  ampere.fingerprint.sm_count = 84;
  return {hopper, ampere};
}

// scenario P15
TEST(GetKernelOnTwoDevicesTest, EachDeviceGetsABinaryForItself) {
  TestServer server({.devices = TwoDevices()});
  const auto get = [&](const std::string& target, v1::GetKernelResponse* response) {
    grpc::ClientContext context;
    return server.Client()->GetKernel(
        &context,
        FromText<v1::GetKernelRequest>("template { name: 'copy' } params { key: 'n' value { "
                                       "integer: 1000 } } target { " +
                                       target + " }"),
        response);
  };
  std::map<std::string, std::string> sha256;
  for (const auto& [target, architecture] :
       std::vector<std::pair<std::string, std::string>>{{"device_index: 0", "sm_90"},
                                                        {"device_index: 1", "sm_86"},
                                                        {"architecture: 'sm_90'", "sm_90"},
                                                        {"architecture: 'sm_86'", "sm_86"},
                                                        {"architecture: 'auto'", "sm_90"}}) {
    v1::GetKernelResponse response;
    const grpc::Status status = get(target, &response);
    ASSERT_TRUE(status.ok()) << target << ": " << status.error_message();
    const v1::ArtifactInfo& artifact = response.kernel().variants(0).artifact();
    EXPECT_EQ(artifact.architecture(), architecture) << target;
    EXPECT_EQ(response.kernel().architecture(), architecture) << target;
    sha256.emplace(architecture, artifact.sha256());
    EXPECT_EQ(artifact.sha256(), sha256.at(architecture)) << target;
  }
  EXPECT_NE(sha256.at("sm_90"), sha256.at("sm_86"));
  EXPECT_EQ(server.compiler().calls(), 2);

  v1::GetKernelResponse response;
  grpc::Status status = get("device_index: 2", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("target.device_index: 2"), HasSubstr("devices 0 to 1")));
  status = get("device_index: 1 architecture: 'sm_90'", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("together with target.architecture"));
}

TEST(GetKernelWithoutDevicesTest, ACubinForANamedArchitectureIsServedAllTheSame) {
  TestServer server({.devices = {}});
  grpc::ClientContext context;
  v1::GetKernelResponse response;
  const auto request = FromText<v1::GetKernelRequest>(
      "template { name: 'copy' } params { key: 'n' value { integer: 1000 } } "
      "target { architecture: 'sm_90a' }");
  const grpc::Status status = server.Client()->GetKernel(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.kernel().variants(0).artifact().format(), "CUBIN");
  EXPECT_THAT(response.key(), IsEmpty()) << "timings need a device";
}

TEST(GetKernelWhileProbingTest, CallsWaitForTheEngineButNotBeyondTheirWait) {
  TestServer server({.engine_ready = false});
  auto client = server.Client();
  auto request = FromText<v1::GetKernelRequest>(
      "template { name: 'copy' } params { key: 'n' value { integer: 1000 } } max_wait_ms: 50");
  v1::GetKernelResponse response;
  {
    grpc::ClientContext context;
    const grpc::Status status = client->GetKernel(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_THAT(status.error_message(), HasSubstr("probed"));
  }
  request.set_max_wait_ms(0);
  std::thread waiting([&] {
    grpc::ClientContext context;
    const grpc::Status status = client->GetKernel(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  });
  server.OpenEngine();
  waiting.join();
}

}  // namespace
}  // namespace hone
