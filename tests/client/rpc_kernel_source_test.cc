// The daemon as libhone sees it: when it counts as unreachable, and whether it speaks our API.
#include "client/cpp/rpc_kernel_source.h"

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_service.h"
#include "tests/client/scripted_server.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;
using enum absl::StatusCode;

std::unique_ptr<KernelSource> SourceAt(const std::string& endpoint, absl::Duration timeout,
                                       bool has_fallback = true) {
  return *MakeRpcKernelSource(
      {.endpoint = endpoint, .connect_timeout = timeout, .has_fallback = has_fallback});
}

GetKernelOptions AnyKernel() {
  GetKernelOptions request;
  request.template_name = "copy_1d";
  return request;
}

// scenario P45
TEST(RpcKernelSourceTest, WithAFallbackADaemonThatIsGoneIsNotWaitedFor) {
  FakeDaemon daemon;
  *daemon.service().kernel.mutable_kernel()->add_variants() = CopyVariant("image", 4, "", true);
  const auto source = SourceAt(daemon.endpoint(), absl::Minutes(10));
  ASSERT_THAT(source->GetKernel(AnyKernel()), IsOk());
  EXPECT_THAT(source->Reach(absl::Seconds(30)), IsOk());
  daemon.Stop();
  for (int i = 0; i < 3; ++i) {
    const auto kernel = source->GetKernel(AnyKernel());
    EXPECT_THAT(kernel, StatusIs(kUnavailable, HasSubstr("no hone daemon")));
    EXPECT_TRUE(IsUnreachable(kernel.status()));
  }
  FakeDaemon successor(daemon.socket_path());
  *successor.service().kernel.mutable_kernel()->add_variants() = CopyVariant("image", 4, "", true);
  while (!source->Reach(absl::Minutes(1)).ok()) {
  }
  EXPECT_THAT(source->GetKernel(AnyKernel()), IsOk());
}

TEST(RpcKernelSourceTest, WhatTheDaemonAnswersIsNoLackOfIt) {
  FakeDaemon daemon;
  const auto source = SourceAt(daemon.endpoint(), absl::Seconds(30));
  daemon.service().FailNext("GetKernel", {grpc::StatusCode::NOT_FOUND, "a miss"});
  const auto miss = source->GetKernel(AnyKernel());
  EXPECT_THAT(miss, StatusIs(kNotFound, HasSubstr("a miss")));
  EXPECT_FALSE(IsUnreachable(miss.status()));
}

TEST(RpcKernelSourceTest, ADaemonThatDoesNotAnswerIsWaitedForAsLongAsAllowed) {
  // One accepts and is silent, the other greets and then answers no call.
  ScriptedServer silent([](ScriptedConnection& connection, int) { connection.ReadToEnd(); });
  ScriptedServer stopped([](ScriptedConnection& connection, int) {
    if (connection.Greet()) connection.ReadToEnd();
  });
  for (const ScriptedServer* server : {&silent, &stopped}) {
    const auto source = SourceAt(server->endpoint(), absl::Milliseconds(100));
    const absl::Time began = absl::Now();
    const auto kernel = source->GetKernel(AnyKernel());
    EXPECT_TRUE(IsUnreachable(kernel.status())) << kernel.status();
    EXPECT_TRUE(IsUnreachable(source->Reach(absl::Milliseconds(100))));
    EXPECT_LT(absl::Now() - began, absl::Seconds(20)) << "far below max_wait";
  }
}

TEST(RpcKernelSourceTest, WithoutAFallbackTheDaemonsStartIsWaitedFor) {
  FakeDaemon daemon;
  const std::string path = daemon.socket_path();
  daemon.Stop();
  const auto source = SourceAt("unix:" + path, absl::Milliseconds(50), /*has_fallback=*/false);
  const auto kernel = source->GetKernel(AnyKernel());
  EXPECT_THAT(kernel, StatusIs(kUnavailable, HasSubstr("start the daemon with 'honed'")));
  EXPECT_TRUE(IsUnreachable(kernel.status()));
}

TEST(RpcKernelSourceTest, ManyKernelsWaitOnceForADaemonThatHangs) {
  ScriptedServer stopped([](ScriptedConnection& connection, int) {
    if (connection.Greet()) connection.ReadToEnd();
  });
  const auto source = SourceAt(stopped.endpoint(), absl::Seconds(2));
  EXPECT_TRUE(IsUnreachable(source->GetKernel(AnyKernel()).status()));
  const absl::Time began = absl::Now();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_THAT(source->GetKernel(AnyKernel()),
                StatusIs(kUnavailable, HasSubstr("did not answer a moment ago")));
  }
  EXPECT_LT(absl::Now() - began, absl::Seconds(8)) << "not 2 s for each";
}

TEST(RpcKernelSourceTest, WaitingForAFullDaemonIsPartOfMaxWait) {
  FakeDaemon daemon;
  *daemon.service().kernel.mutable_kernel()->add_variants() = CopyVariant("image", 4, "", true);
  const auto source = SourceAt(daemon.endpoint(), absl::Seconds(30), /*has_fallback=*/false);
  v1::ErrorDetail detail;
  const auto full = [&](int64_t retry_after_ms) {
    detail.set_retry_after_ms(retry_after_ms);
    daemon.service().FailNext(
        "GetKernel", {grpc::StatusCode::RESOURCE_EXHAUSTED, "full", detail.SerializeAsString()});
  };
  for (int i = 0; i < 6; ++i) full(20);
  GetKernelOptions request = AnyKernel();
  request.max_wait = absl::Minutes(5);
  ASSERT_THAT(source->GetKernel(request), IsOk());
  EXPECT_EQ(daemon.service().calls("GetKernel"), 7);
  EXPECT_LE(daemon.service().last_get().max_wait_ms(), 300'000 - 6 * 16);
  full(600'000);
  EXPECT_THAT(source->GetKernel(request), StatusIs(kResourceExhausted, "full"));
}

// scenario P46
TEST(RpcKernelSourceTest, ADaemonOfANewerApiIsRefusedInOneSentence) {
  FakeDaemon daemon;
  *daemon.service().kernel.mutable_kernel()->add_variants() = CopyVariant("image", 4, "", true);
  const auto source = SourceAt(daemon.endpoint(), absl::Seconds(30), /*has_fallback=*/false);
  ASSERT_THAT(source->GetKernel(AnyKernel()), IsOk());
  EXPECT_EQ(daemon.service().calls("GetStatus"), 0) << "an answer says which API it is of";
  daemon.service().status.set_version("9.0.0");
  daemon.service().status.set_api_version(2);
  daemon.service().kernel.set_api_version(2);
  const std::string sentence =
      "(honed 9.0.0) speaks API version 2, this library only 1; update libhone";
  EXPECT_THAT(source->GetKernel(AnyKernel()), StatusIs(kFailedPrecondition, HasSubstr(sentence)));
  // It may not even understand the request.
  daemon.service().FailNext("GetKernel", {grpc::StatusCode::INVALID_ARGUMENT, "template: gone"});
  EXPECT_THAT(source->GetKernel(AnyKernel()), StatusIs(kFailedPrecondition, HasSubstr(sentence)));
}

}  // namespace
}  // namespace hone
