#include "client/cpp/hone/client.h"

#include <cstdlib>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"
#include "runtime/base/sha256.h"
#include "tests/client/fake_service.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using enum absl::StatusCode;

class ClientTest : public testing::Test {
 protected:
  Client Connected() {
    absl::StatusOr<Client> client = Client::Connect({.endpoint = daemon_.endpoint()});
    EXPECT_THAT(client, IsOk());
    return *client;
  }
  FakeService& service() { return daemon_.service(); }

  FakeDaemon daemon_;
};

TEST_F(ClientTest, AsksForTheKernelItWasToldTo) {
  *service().kernel.mutable_kernel()->add_variants() = CopyVariant("image", 16, "", true);
  const Client client = Connected();
  absl::StatusOr<Kernel> kernel =
      client.GetKernel({.template_name = "copy_1d",
                        .params = {{"T", "F32"}, {"n", 1 << 26}, {"fast", true}},
                        .policy = v1::WAIT_TUNED,
                        .max_wait = absl::Seconds(7)});
  ASSERT_THAT(kernel, IsOk());
  const v1::GetKernelRequest request = service().last_get();
  EXPECT_EQ(request.template_().name(), "copy_1d");
  EXPECT_EQ(request.params().at("T").text(), "F32");
  EXPECT_EQ(request.params().at("n").integer(), 1 << 26);
  EXPECT_TRUE(request.params().at("fast").flag());
  EXPECT_EQ(request.policy(), v1::WAIT_TUNED);
  EXPECT_EQ(request.max_wait_ms(), 7000);
  // The deadline only cuts off a call that is lost: it lies behind the answer.
  EXPECT_GT(service().last_timeout(), absl::Seconds(8));
  EXPECT_LT(service().last_timeout(), absl::Seconds(60));
  EXPECT_THAT(kernel->dynamic_sizes(), ElementsAre("n"));
}

TEST_F(ClientTest, FetchesEachArtifactThatWasNotSentOnce) {
  *service().kernel.mutable_kernel()->add_variants() = CopyVariant("image", 16, "", false);
  *service().kernel.mutable_kernel()->add_variants() = CopyVariant("image", 4, "", false);
  service().artifacts[Sha256Hex("image")] = "image";
  absl::StatusOr<Kernel> kernel = Connected().GetKernel({.template_name = "copy_1d"});
  ASSERT_THAT(kernel, IsOk());
  ASSERT_THAT(kernel->variants(), SizeIs(2));
  EXPECT_EQ(kernel->variants()[0].bytes, "image");
  EXPECT_EQ(kernel->variants()[1].bytes, "image");
  EXPECT_EQ(service().calls("GetArtifact"), 1);
}

// scenario P40
TEST_F(ClientTest, ArtifactsBeyondGrpcsDefaultLimitArrive) {
  std::string image(6 << 20, 'x');
  image[5 << 20] = 'y';
  *service().kernel.mutable_kernel()->add_variants() = CopyVariant(image, 16, "", false);
  service().artifacts[Sha256Hex(image)] = image;
  const Client client = Connected();
  absl::StatusOr<Kernel> fetched = client.GetKernel({.template_name = "copy_1d"});
  ASSERT_THAT(fetched, IsOk());
  EXPECT_EQ(fetched->variants()[0].bytes, image);
  // Also in one message.
  *service().kernel.mutable_kernel()->mutable_variants(0) = CopyVariant(image, 16, "", true);
  absl::StatusOr<Kernel> inlined = client.GetKernel({.template_name = "copy_1d"});
  ASSERT_THAT(inlined, IsOk());
  EXPECT_EQ(inlined->variants()[0].bytes, image);
}

TEST_F(ClientTest, BytesThatDoNotMatchTheirHashAreNeverUsed) {
  v1::KernelVariant variant = CopyVariant("image", 16, "", true);
  variant.set_artifact_bytes("imagf");
  *service().kernel.mutable_kernel()->add_variants() = variant;
  const Client client = Connected();
  EXPECT_THAT(client.GetKernel({.template_name = "copy_1d"}),
              StatusIs(kDataLoss, HasSubstr("hash")));
  service().artifacts[Sha256Hex("a")] = "b";
  EXPECT_THAT(client.GetArtifact(Sha256Hex("a")), StatusIs(kDataLoss, HasSubstr(Sha256Hex("a"))));
}

TEST_F(ClientTest, AnAnswerWithoutVariantsIsTheDaemonsFault) {
  EXPECT_THAT(Connected().GetKernel({.template_name = "copy_1d"}),
              StatusIs(kInternal, HasSubstr("no variant")));
}

// scenario P46
TEST_F(ClientTest, ARecipeFromTheFutureIsRefusedInOneSentence) {
  v1::KernelVariant variant = CopyVariant("image", 16, "", true);
  variant.mutable_recipe()->mutable_steps(0)->mutable_grid(0)->set_op("popcount");
  *service().kernel.mutable_kernel()->add_variants() = variant;
  EXPECT_THAT(Connected().GetKernel({.template_name = "copy_1d"}),
              StatusIs(kInternal, HasSubstr("operator 'popcount' is not known to this version")));
}

// scenario P46
TEST_F(ClientTest, ADaemonWithANewerApiIsRefusedInOneSentence) {
  service().status.set_api_version(kClientApiVersion + 1);
  service().status.set_version("9.0.0");
  EXPECT_THAT(Client::Connect({.endpoint = daemon_.endpoint()}),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("honed 9.0.0"), HasSubstr("update the client"))));
}

TEST_F(ClientTest, ErrorsCarryTheDaemonsFacts) {
  v1::ErrorDetail detail;
  detail.set_reason("COMPILE_FAILED");
  detail.set_excerpt("k.cu(3): error: expected a \";\"");
  detail.set_log_id("abc");
  detail.set_error_count(100);
  detail.set_error_limit_reached(true);
  service().FailNext("Compile", grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                             "k.cu does not compile", detail.SerializeAsString()));
  const auto compiled = Connected().Compile(v1::CompileRequest());
  EXPECT_THAT(compiled, StatusIs(kInvalidArgument, "k.cu does not compile"));
  const auto info = ErrorInfoOf(compiled.status());
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, "COMPILE_FAILED");
  EXPECT_EQ(info->log_id, "abc");
  EXPECT_EQ(info->error_count, 100);
  EXPECT_TRUE(info->error_limit_reached);
  EXPECT_THAT(info->excerpt, HasSubstr("k.cu(3)"));
}

TEST_F(ClientTest, CallsThatChangeNothingAreRepeatedWhenTheDaemonIsBusyRestarting) {
  const Client client = Connected();
  service().FailNext("ListTemplates", grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining"));
  EXPECT_THAT(client.ListTemplates(), IsOk());
  EXPECT_EQ(service().calls("ListTemplates"), 2);
  // Registering and tuning are for the caller to repeat.
  service().FailNext("RegisterTemplate", grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining"));
  EXPECT_THAT(client.RegisterTemplate({}), StatusIs(kUnavailable, "draining"));
  EXPECT_EQ(service().calls("RegisterTemplate"), 1);
}

TEST_F(ClientTest, ADaemonThatIsFullIsAskedAgainWhenItSaysThatThisHelps) {
  const Client client = Connected();
  v1::ErrorDetail detail;
  detail.set_retry_after_ms(5);
  for (int i = 0; i < 2; ++i) {
    service().FailNext("ListTemplates", grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                                                     detail.SerializeAsString()));
  }
  EXPECT_THAT(client.ListTemplates(), IsOk());
  EXPECT_EQ(service().calls("ListTemplates"), 3);
  service().FailNext("ListTemplates",
                     grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "needs 9 GB of memory"));
  EXPECT_THAT(client.ListTemplates(), StatusIs(kResourceExhausted, "needs 9 GB of memory"));
  EXPECT_EQ(service().calls("ListTemplates"), 4);
}

TEST_F(ClientTest, ListsAllPages) {
  for (int i = 0; i < 1203; ++i) {
    service().tunings.emplace_back().set_key(absl::StrCat("key", i));
  }
  absl::StatusOr<std::vector<v1::TuningSummary>> all = Connected().ListTunings("", 5000);
  ASSERT_THAT(all, IsOk());
  ASSERT_THAT(*all, SizeIs(1203));
  EXPECT_EQ(all->back().key(), "key1202");
  EXPECT_THAT(Connected().ListTunings("", 700), IsOkAndHolds(SizeIs(700)));
}

TEST_F(ClientTest, TuneEventsComeInOrderAndEndWithTheResult) {
  v1::TuneEvent started;
  started.mutable_started()->set_candidates(1);
  v1::TuneEvent candidate;
  candidate.mutable_candidate()->set_config("A=1");
  v1::TuneEvent finished;
  finished.mutable_finished()->set_measured(1);
  service().tune_events = {started, candidate, finished};
  std::vector<int> kinds;
  const auto result = Connected().Tune({}, [&](const v1::TuneEvent& event) {
    kinds.push_back(event.kind_case());
    return true;
  });
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->measured(), 1);
  EXPECT_THAT(kinds, ElementsAre(v1::TuneEvent::kStarted, v1::TuneEvent::kCandidate,
                                 v1::TuneEvent::kFinished));
}

TEST_F(ClientTest, ATuneCanBeLeft) {
  service().tune_events.assign(100000, v1::TuneEvent());
  int seen = 0;
  EXPECT_THAT(Connected().Tune({}, [&](const v1::TuneEvent&) { return ++seen < 3; }),
              StatusIs(kCancelled, testing::_));
  EXPECT_EQ(seen, 3);
}

TEST_F(ClientTest, ATuneThatEndsWithoutAResultIsTheDaemonsFault) {
  EXPECT_THAT(Connected().Tune({}, nullptr), StatusIs(kInternal, HasSubstr("without a result")));
}

TEST_F(ClientTest, AProxyForTheWebIsNotAskedForALocalSocket) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  EXPECT_THAT(Client::Connect({.endpoint = daemon_.endpoint()}), IsOk());
  unsetenv("http_proxy");
}

TEST_F(ClientTest, ConnectionRefusedSaysWhatToStart) {
  EXPECT_THAT(Client::Connect({.endpoint = "unix:/nowhere/honed.sock",
                               .connect_timeout = absl::Milliseconds(50)}),
              StatusIs(kUnavailable, AllOf(HasSubstr("/nowhere/honed.sock"),
                                           HasSubstr("start the daemon with 'honed'"),
                                           HasSubstr("HONE_ENDPOINT"))));
}

TEST_F(ClientTest, WrongEndpointsAreNamed) {
  EXPECT_THAT(
      Client::Connect({.endpoint = "nowhere"}),
      StatusIs(kInvalidArgument, HasSubstr("'nowhere' is neither unix:PATH nor HOST:PORT")));
  EXPECT_THAT(Client::Connect({.endpoint = "unix:" + std::string(200, 'x')}),
              StatusIs(kInvalidArgument, HasSubstr("a socket path has 1 to 107 bytes")));
  EXPECT_THAT(Client::Connect({.endpoint = "localhost:1", .tls_ca_file = "/nowhere.pem"}),
              StatusIs(kInvalidArgument, HasSubstr("/nowhere.pem")));
}

// scenario P45
TEST_F(ClientTest, WorksAgainSoonAfterTheDaemonIsBack) {
  const Client client = Connected();
  EXPECT_THAT(client.GetStatus(), IsOk());
  const std::string path = daemon_.socket_path();
  daemon_.Stop();
  absl::StatusOr<Client> impatient =
      Client::Connect({.endpoint = "unix:" + path, .connect_timeout = absl::Milliseconds(300)});
  EXPECT_THAT(impatient, StatusIs(kUnavailable, HasSubstr("no hone daemon")));
  FakeDaemon again(path);
  const absl::Time back = absl::Now();
  EXPECT_THAT(client.GetStatus(), IsOk());
  EXPECT_LT(absl::Now() - back, absl::Seconds(2));
}

TEST_F(ClientTest, MayBeMadeBeforeTheDaemon) {
  const std::string path = daemon_.socket_path();
  daemon_.Stop();
  absl::StatusOr<Client> client =
      Client::Connect({.endpoint = "unix:" + path, .connect_timeout = absl::ZeroDuration()});
  ASSERT_THAT(client, IsOk());
  EXPECT_THAT(client->GetStatus(), StatusIs(kUnavailable, HasSubstr("start the daemon")));
}

TEST_F(ClientTest, ManyThreadsShareOneClient) {
  *service().kernel.mutable_kernel()->add_variants() = CopyVariant("image", 16, "", true);
  const Client client = Connected();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        if (client.GetKernel({.template_name = "copy_1d"}).ok()) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 160);
}

}  // namespace
}  // namespace hone
