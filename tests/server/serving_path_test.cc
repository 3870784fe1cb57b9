// GetKernel as a server under load sees it: callers who go, repeated requests, refusals, other
// versions.
#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/get_kernel_fixture.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ServingPathTest : public GetKernelFixture {};

// scenario P41
TEST_F(ServingPathTest, ACallerWhoGoesTakesItsQueuedWorkAlong) {
  const auto counter = [&](const std::string& name) {
    return server_.context().gate->Get()->cache->Counters().at(name);
  };
  server_.compiler().Block();
  // One compiles, the others wait for it, until no thread is left for F16.
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, i, client = server_.Client()] {
      v1::GetKernelResponse response;
      const std::string n = std::to_string(100 + i);
      EXPECT_TRUE(Get(*client, "params { key: 'n' value { integer: " + n + " } }", &response).ok());
    });
  }
  while (counter("joined_waiters") < 7) std::this_thread::yield();
  const auto f16 = FromText<v1::GetKernelRequest>(
      "template { name: 'copy' } params { key: 'n' value { integer: 1000 } } "
      "params { key: 'T' value { text: 'F16' } }");
  grpc::ClientContext context;
  std::thread impatient([&, client = server_.Client()] {
    v1::GetKernelResponse response;
    EXPECT_EQ(client->GetKernel(&context, f16, &response).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  while (counter("waiting_builds") < 1) std::this_thread::yield();
  context.TryCancel();
  impatient.join();
  while (counter("dropped_unwanted") < 1) std::this_thread::yield();
  while (counter("waiting_builds") > 0) std::this_thread::yield();
  server_.compiler().Unblock();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(server_.compiler().CallsFor("copy<__half"), 0);
}

// scenario P41
TEST_F(ServingPathTest, AThousandCallersWhoGoLeaveNothingBehind) {
  server_.compiler().SetDelay(absl::Milliseconds(1));
  std::vector<std::thread> callers;
  std::atomic<int> ended{0}, wrong{0};
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&, caller, client = server_.Client()] {
      for (int i = 0; i < 125; ++i) {
        grpc::ClientContext context;
        // From less than it takes to much more.
        context.set_deadline(std::chrono::system_clock::now() +
                             std::chrono::microseconds(100 << (i % 10)));
        auto request = FromText<v1::GetKernelRequest>(
            "template { name: 'copy' } params { key: 'n' value { } }");
        (*request.mutable_params())["n"].set_integer(1000 * caller + i);
        v1::GetKernelResponse response;
        const grpc::Status status = client->GetKernel(&context, request, &response);
        const bool expected = status.ok() ||
                              status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                              status.error_code() == grpc::StatusCode::CANCELLED;
        ++(expected ? ended : wrong);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(ended, 1000);
  KernelCache& cache = *server_.context().gate->Get()->cache;
  while (server_.context().calls.count() > 0) std::this_thread::yield();
  while (cache.Counters().at("waiting_builds") + cache.Counters().at("waiting_lookups") > 0) {
    std::this_thread::yield();
  }
  v1::GetKernelResponse response;
  EXPECT_TRUE(Get("", &response).ok()) << "and the daemon still works";
}

// scenario P46
TEST_F(ServingPathTest, WhatANewerClientSendsIsIgnoredOrRefusedByName) {
  auto request = FromText<v1::GetKernelRequest>(
      "template { name: 'copy' } params { key: 'n' value { integer: 1000 } }");
  // Field 1000 of a later version: a varint, and a text beside it.
  auto* later = request.GetReflection()->MutableUnknownFields(&request);
  later->AddVarint(1000, 7);
  later->AddLengthDelimited(1001, "later");
  v1::GetKernelResponse response;
  {
    grpc::ClientContext context;
    const grpc::Status status = server_.Client()->GetKernel(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  request.set_policy(static_cast<v1::Policy>(17));
  {
    grpc::ClientContext context;
    const grpc::Status status = server_.Client()->GetKernel(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("policy: 17 is not a Policy"));
  }
  request.set_policy(v1::NO_WAIT);
  request.set_numerics(static_cast<v1::Numerics>(5));
  {
    grpc::ClientContext context;
    const grpc::Status status = server_.Client()->GetKernel(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("numerics: 5 is not a Numerics"));
  }
}

TEST_F(ServingPathTest, ARepeatedRequestIsAnsweredByWhatHoldsNow) {
  v1::GetKernelResponse response;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Get("", &response).ok());
  const auto counter = [&](const std::string& name) {
    return server_.context().gate->Get()->cache->Counters().at(name);
  };
  EXPECT_EQ(counter("memory_hits"), 2);
  EXPECT_EQ(counter("untuned"), 3) << "each is counted as a miss of the tunings";
  // A winner.
  server_.profiler().SetTiming("XBLOCK=128 VEC=4", {100, 101, 99});
  ASSERT_TRUE(Get("policy: WAIT_TUNED", &response).ok());
  ASSERT_TRUE(Get("", &response).ok());
  EXPECT_EQ(response.source(), v1::BUCKET);
  ASSERT_TRUE(Get("", &response).ok());
  EXPECT_EQ(response.kernel().variants(0).config(), "XBLOCK=128 VEC=4");
  // Another reply for the same kernel.
  ASSERT_TRUE(Get("inline_bytes_max: -1", &response).ok());
  EXPECT_THAT(response.kernel().variants(0).artifact_bytes(), IsEmpty());
  ASSERT_TRUE(Get("", &response).ok());
  EXPECT_THAT(response.kernel().variants(0).artifact_bytes(), Not(IsEmpty()));
}

TEST(ServingPathByNameTest, ANameThatComesToMeanAnotherTemplateIsNotAnsweredWithTheOld) {
  TestServer server;
  auto client = server.Client();
  const auto register_with = [&](const std::string& comment) {
    grpc::ClientContext context;
    v1::RegisterTemplateRequest request;
    *request.mutable_template_() = CopyTemplate("mine");
    request.mutable_template_()->mutable_files(0)->mutable_content()->append("// " + comment);
    request.mutable_template_()->set_version(comment);
    v1::RegisterTemplateResponse response;
    const grpc::Status status = client->RegisterTemplate(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.summary().digest();
  };
  const auto served = [&] {
    grpc::ClientContext context;
    v1::GetKernelResponse response;
    const auto request = FromText<v1::GetKernelRequest>(
        "template { name: 'mine' } params { key: 'n' value { integer: 1000 } }");
    const grpc::Status status = client->GetKernel(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.kernel().template_digest();
  };
  const std::string first = register_with("one");
  EXPECT_EQ(served(), first);
  EXPECT_EQ(served(), first);
  EXPECT_EQ(served(), first);
  const std::string second = register_with("two");
  EXPECT_NE(second, first);
  EXPECT_EQ(served(), second);
}

TEST_F(ServingPathTest, HitsAreAnsweredWhateverElseThereIs) {
  v1::GetKernelResponse response;
  ASSERT_TRUE(Get("", &response).ok());
  server_.context().limits.calls_max = 0;
  const grpc::Status miss = Error("params { key: 'n' value { integer: 77 } }");
  EXPECT_EQ(miss.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(DetailIn(miss).reason(), "TOO_MANY_CALLS");
  EXPECT_TRUE(Get("", &response).ok());
  EXPECT_TRUE(Get("", &response).ok());
}

TEST_F(ServingPathTest, OneConnectionCannotTakeAllCallsThereMayBe) {
  server_.context().limits.calls_max = 4;
  server_.compiler().Block();
  const auto hog = server_.Client(), other = server_.Client();
  std::vector<std::thread> callers;
  const auto ask = [&](v1::KernelService::Stub* client, int n) {
    callers.emplace_back([this, client, n] {
      v1::GetKernelResponse response;
      const std::string request =
          "params { key: 'n' value { integer: " + std::to_string(n) + " } }";
      EXPECT_TRUE(Get(*client, request, &response).ok());
    });
    while (server_.context().calls.count() < static_cast<int64_t>(callers.size())) {
      std::this_thread::yield();
    }
  };
  ask(hog.get(), 1);
  ask(hog.get(), 2);
  v1::GetKernelResponse response;
  const grpc::Status third = Get(*hog, "params { key: 'n' value { integer: 3 } }", &response);
  EXPECT_EQ(third.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(third.error_message(), HasSubstr("2 of them of this connection"));
  ask(other.get(), 4);
  server_.compiler().Unblock();
  for (std::thread& caller : callers) caller.join();
}

TEST_F(ServingPathTest, RefusalsTellGrpcsOwnRetriesWhenToComeBack) {
  server_.context().limits.calls_max = 0;
  grpc::ClientContext context;
  v1::GetKernelResponse response;
  const auto request = FromText<v1::GetKernelRequest>(
      "template { name: 'copy' } params { key: 'n' value { integer: 1000 } }");
  const grpc::Status status = server_.Client()->GetKernel(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto trailers = context.GetServerTrailingMetadata();
  const auto pushback = trailers.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, trailers.end());
  EXPECT_EQ(std::string(pushback->second.data(), pushback->second.size()),
            std::to_string(DetailIn(status).retry_after_ms()));
}

}  // namespace
}  // namespace hone
