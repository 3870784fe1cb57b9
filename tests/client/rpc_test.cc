// The transport against a real gRPC server, with real messages.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/rpc/error_detail.h"
#include "client/cpp/rpc/rpc_channel.h"
#include "client/cpp/status_convert.h"
#include "tests/client/fake_service.h"
#include "tests/client/rpc_calls.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum absl::StatusCode;

std::string Method(const std::string& name) { return "/hone.v1.KernelService/" + name; }

class RpcTest : public testing::Test {
 protected:
  RpcTest() : channel_(*RpcChannel::Create({.endpoint = daemon_.endpoint()})) {}

  FakeService& service() { return daemon_.service(); }

  // One call with messages instead of bytes.
  template <class Response>
  absl::StatusOr<Response> Call(const std::string& name, const google::protobuf::Message& request,
                                RpcCallOptions options = Within(kLong)) {
    const absl::StatusOr<std::string> bytes =
        channel_->Call(Method(name), request.SerializeAsString(), options);
    if (!bytes.ok()) return bytes.status();
    Response response;
    EXPECT_TRUE(response.ParseFromString(*bytes));
    return response;
  }
  absl::StatusOr<v1::GetStatusResponse> GetStatus(RpcCallOptions options = Within(kLong)) {
    return Call<v1::GetStatusResponse>("GetStatus", v1::GetStatusRequest(), options);
  }

  FakeDaemon daemon_;
  std::unique_ptr<RpcChannel> channel_;
};

TEST_F(RpcTest, MessagesArriveBothWaysWithTheDeadline) {
  service().kernel.set_key("the key");
  v1::GetKernelRequest request;
  request.mutable_template_()->set_name("copy_1d");
  const auto response = Call<v1::GetKernelResponse>("GetKernel", request, Within(absl::Seconds(7)));
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->key(), "the key");
  EXPECT_EQ(service().last_get().template_().name(), "copy_1d");
  EXPECT_GT(service().last_timeout(), absl::Seconds(4));
  EXPECT_LT(service().last_timeout(), absl::Seconds(8));
}

TEST_F(RpcTest, LargeRepliesAndRequestsArrive) {
  std::string bytes(size_t{20} << 20, 'x');
  for (size_t i = 0; i < bytes.size(); i += 1000) bytes[i] = static_cast<char>(i / 1000 % 251);
  *service().kernel.mutable_kernel()->add_variants() = CopyVariant(bytes, 16, "", true);
  const auto response = Call<v1::GetKernelResponse>("GetKernel", v1::GetKernelRequest());
  ASSERT_THAT(response, IsOk());
  EXPECT_TRUE(response->kernel().variants(0).artifact_bytes() == bytes);

  v1::RegisterTemplateRequest request;
  request.mutable_template_()->add_files()->set_content(bytes);
  ASSERT_THAT(Call<v1::RegisterTemplateResponse>("RegisterTemplate", request), IsOk());
  EXPECT_TRUE(service().last_register().template_().files(0).content() == bytes);
}

TEST_F(RpcTest, AReplyBeyondTheBoundIsRefusedAndTheConnectionStands) {
  service().kernel.set_key(std::string(size_t{2} << 20, 'k'));
  channel_ =
      *RpcChannel::Create({.endpoint = daemon_.endpoint(), .message_bytes_max = size_t{1} << 20});
  EXPECT_THAT(Call<v1::GetKernelResponse>("GetKernel", v1::GetKernelRequest()),
              StatusIs(kResourceExhausted, HasSubstr("1048576")));
  EXPECT_THAT(GetStatus(), IsOk());
}

TEST_F(RpcTest, StreamsSurviveASlowReader) {
  std::string bytes(size_t{30} << 20, 'x');
  service().artifacts["hash"] = bytes;
  v1::GetArtifactRequest request;
  request.set_sha256("hash");
  std::string received;
  EXPECT_THAT(channel_->Stream(Method("GetArtifact"), request.SerializeAsString(), Within(kLong),
                               [&](const std::string& message) {
                                 v1::ArtifactChunk chunk;
                                 EXPECT_TRUE(chunk.ParseFromString(message));
                                 received += chunk.data();
                                 // Slower than the daemon, so that the stream is paused.
                                 absl::SleepFor(absl::Milliseconds(5));
                                 return true;
                               }),
              IsOk());
  EXPECT_TRUE(received == bytes);
}

TEST_F(RpcTest, ErrorsCarryTheDaemonsFacts) {
  v1::ErrorDetail detail;
  detail.set_reason("COMPILE_FAILED");
  detail.set_excerpt("kernel.cu(3): error: \u00fc %41\nint x = y;");
  detail.set_error_count(100);
  detail.set_error_limit_reached(true);
  const grpc::Status failure(grpc::StatusCode::INVALID_ARGUMENT, "100% wrong:\n\u00fc",
                             detail.SerializeAsString());
  service().FailNext(failure);
  const absl::Status status = GetStatus().status();
  EXPECT_THAT(status, StatusIs(kInvalidArgument, "100% wrong:\n\u00fc"));
  EXPECT_EQ(status, FromGrpc(failure));
  const auto info = ErrorInfoOf(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->excerpt, detail.excerpt());
  EXPECT_EQ(info->error_count, 100);
  EXPECT_TRUE(info->error_limit_reached);
}

TEST_F(RpcTest, AMethodThatDoesNotExistIsUnimplemented) {
  EXPECT_THAT(channel_->Call(Method("FromTheFuture"), "", Within(kLong)),
              StatusIs(kUnimplemented, testing::_));
}

TEST_F(RpcTest, OnlyCallsThatSaySoAreRepeatedWhenTheDaemonIsBusy) {
  const grpc::Status busy(grpc::StatusCode::UNAVAILABLE, "store busy");
  service().FailNext(busy);
  EXPECT_THAT(GetStatus(), StatusIs(kUnavailable, "store busy"));
  service().FailNext(busy);
  service().FailNext(busy);
  EXPECT_THAT(GetStatus(Within(kLong, /*retry=*/true)), IsOk());
  EXPECT_EQ(service().calls("GetStatus"), 4);
  for (int i = 0; i < 5; ++i) service().FailNext(busy);
  EXPECT_THAT(GetStatus(Within(kLong, /*retry=*/true)), StatusIs(kUnavailable, "store busy"));
  EXPECT_EQ(service().calls("GetStatus"), 9);
  // Other failures say nothing about a second try, unless they do.
  service().FailNext(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full"));
  EXPECT_THAT(GetStatus(Within(kLong, /*retry=*/true)), StatusIs(kResourceExhausted, "full"));
  EXPECT_EQ(service().calls("GetStatus"), 10);
}

TEST_F(RpcTest, WhoIsAskedToComeBackDoesUntilTheDeadline) {
  v1::ErrorDetail detail;
  detail.set_reason("QUEUE_FULL");
  detail.set_retry_after_ms(5);
  const grpc::Status full(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", detail.SerializeAsString());
  for (int i = 0; i < 12; ++i) service().FailNext(full);
  EXPECT_THAT(GetStatus(Within(kLong, /*retry=*/true)), IsOk());
  EXPECT_EQ(service().calls("GetStatus"), 13);
  service().FailNext(full);
  EXPECT_THAT(GetStatus(), StatusIs(kResourceExhausted, "full")) << "of calls that may be repeated";
  detail.set_retry_after_ms(3'600'000);
  service().FailNext(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full for an hour",
                                  detail.SerializeAsString()));
  EXPECT_THAT(GetStatus(Within(kLong, /*retry=*/true)),
              StatusIs(kResourceExhausted, "full for an hour"))
      << "it does not wait when that would be in vain";
}

TEST_F(RpcTest, AStreamCanBeLeftAndTheChannelGoesOn) {
  for (int i = 0; i < 1000; ++i) service().tune_events.emplace_back();
  int seen = 0;
  EXPECT_THAT(channel_->Stream(Method("Tune"), "", Within(kLong),
                               [&](const std::string&) { return ++seen < 3; }),
              StatusIs(kCancelled, testing::_));
  EXPECT_EQ(seen, 3);
  EXPECT_THAT(GetStatus(), IsOk());
}

// scenario P45
TEST_F(RpcTest, ARestartedDaemonIsFoundAgain) {
  ASSERT_THAT(GetStatus(), IsOk());
  daemon_.Stop();
  EXPECT_THAT(GetStatus(), StatusIs(kUnavailable, AllOf(HasSubstr(daemon_.socket_path()),
                                                        HasSubstr("no such socket"))));
  FakeDaemon successor(daemon_.socket_path());
  EXPECT_THAT(GetStatus(Within(kLong, /*retry=*/true)), IsOk());
  EXPECT_EQ(successor.service().calls("GetStatus"), 1);
}

TEST_F(RpcTest, CallsOfManyThreadsAllArriveWhileDaemonsComeAndGo) {
  std::vector<std::unique_ptr<FakeDaemon>> daemons;
  daemons.push_back(std::make_unique<FakeDaemon>());
  channel_ = *RpcChannel::Create({.endpoint = daemons.front()->endpoint()});
  std::atomic<bool> stop{false};
  std::atomic<int> good{0};
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const absl::Status status = GetStatus(Within(kLong, /*retry=*/true)).status();
        // A server that is shut down at once says CANCELLED to what it was doing.
        if (status.ok() || absl::IsCancelled(status)) {
          ++good;
        } else {
          ++bad;
          ADD_FAILURE() << status;
        }
      }
    });
  }
  for (int restart = 0; restart < 3; ++restart) {
    const int before = good;
    while (good < before + 500 && bad == 0) std::this_thread::yield();
    // The socket's directory goes with the first of them.
    daemons.back()->Stop();
    daemons.push_back(std::make_unique<FakeDaemon>(daemons.front()->socket_path()));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
  while (daemons.size() > 1) daemons.pop_back();
}

TEST(ErrorDetailWireTest, ReadsWhatProtobufWrites) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 1000; ++i) {
    v1::ErrorDetail detail;
    const auto maybe = [&] { return random() % 3 != 0; };
    if (maybe()) detail.set_reason(std::string(random() % 200, 'r'));
    if (maybe()) detail.set_excerpt(std::string(random() % 5000, 'e'));
    if (maybe()) detail.set_log_id("log");
    if (maybe()) detail.set_error_count(static_cast<int32_t>(random()));
    if (maybe()) detail.set_error_limit_reached(maybe());
    if (maybe()) detail.set_needed(static_cast<int64_t>(random()));
    if (maybe()) detail.set_available(static_cast<int64_t>(random() % 1000));
    if (maybe()) detail.set_retry_after_ms(static_cast<int64_t>(random()));
    // scenario P46: fields of a newer daemon
    auto* unknown = v1::ErrorDetail::GetReflection()->MutableUnknownFields(&detail);
    if (maybe()) unknown->AddVarint(1000, random());
    if (maybe()) unknown->AddFixed32(1001, 1);
    if (maybe()) unknown->AddFixed64(1002, 1);
    if (maybe()) unknown->AddLengthDelimited(1003, "new");
    const auto info = DecodeErrorDetail(detail.SerializeAsString());
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->reason, detail.reason());
    EXPECT_EQ(info->excerpt, detail.excerpt());
    EXPECT_EQ(info->log_id, detail.log_id());
    EXPECT_EQ(info->error_count, detail.error_count());
    EXPECT_EQ(info->error_limit_reached, detail.error_limit_reached());
    EXPECT_EQ(info->needed, detail.needed());
    EXPECT_EQ(info->available, detail.available());
    EXPECT_EQ(info->retry_after_ms, detail.retry_after_ms());
  }
}

}  // namespace
}  // namespace hone
