// What every client of a gRPC server expects: health, reflection, status, an orderly end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string Text(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!bytes.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// Calls a unary method whose messages we have no code for.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request, std::string* response) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, method, Bytes(request), &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  call->Finish(&reply, &status, &tag);
  queue.Next(&tag, &ok);
  if (status.ok()) *response = Text(reply);
  return status;
}

constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";
// HealthCheckResponse { status: SERVING }
constexpr char kServing[] = "\x08\x01";

TEST(RpcServerTest, HealthServesTheStandardProtocol) {
  TestServer server;
  auto channel = server.Channel();
  std::string response;
  ASSERT_TRUE(CallRaw(channel, kHealthCheck, "", &response).ok());
  EXPECT_EQ(response, kServing);
  // HealthCheckRequest { service: "hone.v1.KernelService" }
  const std::string service = "hone.v1.KernelService";
  ASSERT_TRUE(CallRaw(channel, kHealthCheck,
                      "\x0a" + std::string(1, static_cast<char>(service.size())) + service,
                      &response)
                  .ok());
  EXPECT_EQ(response, kServing);
}

TEST(RpcServerTest, ReflectionListsTheService) {
  TestServer server;
  grpc::GenericStub stub(server.Channel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(wait());
  // ServerReflectionRequest { list_services: "" }
  call->Write(Bytes(std::string("\x3a\x00", 2)), nullptr);
  ASSERT_TRUE(wait());
  grpc::ByteBuffer reply;
  call->Read(&reply, nullptr);
  ASSERT_TRUE(wait());
  EXPECT_THAT(Text(reply), AllOf(HasSubstr("hone.v1.KernelService"), HasSubstr("grpc.health")));
  call->WritesDone(nullptr);
  wait();
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  EXPECT_TRUE(status.ok());
}

TEST(RpcServerTest, StatusTellsDevicesCompilersCountersAndTheCallersRole) {
  TestServer server;
  grpc::ClientContext context;
  v1::GetStatusResponse status;
  ASSERT_TRUE(server.Client()->GetStatus(&context, {}, &status).ok());
  EXPECT_EQ(status.version(), "test");
  EXPECT_EQ(status.api_version(), kApiVersion);
  EXPECT_EQ(status.pid(), getpid());
  ASSERT_EQ(status.devices_size(), 1);
  EXPECT_EQ(status.devices(0).name(), FakeDeviceInfo().name);
  EXPECT_EQ(status.devices(0).state(), "idle");
  EXPECT_GE(status.compilers_size(), 1);
  EXPECT_EQ(status.counters().at("compiles"), 0);
  EXPECT_EQ(status.caller_role(), "tuner");
  EXPECT_EQ(status.listen(), "unix:" + server.socket_path());
}

TEST(RpcServerTest, StatusAnswersWhileDevicesAreProbed) {
  TestServer server({.engine_ready = false});
  grpc::ClientContext context;
  v1::GetStatusResponse status;
  ASSERT_TRUE(server.Client()->GetStatus(&context, {}, &status).ok());
  ASSERT_EQ(status.devices_size(), 1);
  EXPECT_EQ(status.devices(0).state(), "probing");
}

// scenario P25
TEST(RpcServerTest, AFailingLaneIsToldUnavailableUntilItWorksAgain) {
  TestServer server;
  auto client = server.Client();
  const auto tune = [&] {
    grpc::ClientContext context;
    auto reader = client->Tune(
        &context, FromText<v1::TuneRequest>("template { name: 'copy' } "
                                            "params { key: 'n' value { integer: 64 } }"));
    v1::TuneEvent event;
    while (reader->Read(&event)) {
    }
    return reader->Finish();
  };
  const auto state = [&] {
    grpc::ClientContext context;
    v1::GetStatusResponse status;
    EXPECT_TRUE(client->GetStatus(&context, {}, &status).ok());
    return status.devices(0);
  };
  server.profiler().FailBegin(absl::UnavailableError("the worker could not be started"));
  EXPECT_FALSE(tune().ok());
  EXPECT_EQ(state().state(), "unavailable");
  EXPECT_THAT(state().detail(), HasSubstr("could not be started"));
  server.profiler().FailBegin(absl::OkStatus());
  EXPECT_TRUE(tune().ok());
  EXPECT_EQ(state().state(), "idle");
}

TEST(RpcServerTest, AConnectionThatNobodyAdmittedIsRefused) {
  TestServer server;
  // The table forgets nobody, so a server with an empty one stands for a peer that slipped past it.
  ConnectionTable empty = ConnectionTable::ForProcessLimit();
  server.context().connections = &empty;
  grpc::ClientContext context;
  v1::GetStatusResponse response;
  const grpc::Status status = server.Client()->GetStatus(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST(RpcServerTest, CallsBeyondTheLimitAreToldToComeBack) {
  TestServerOptions options;
  options.limits.calls_max = 1;
  TestServer server(options);
  server.compiler().Block();
  auto client = server.Client();
  std::thread first([&] {
    grpc::ClientContext context;
    v1::CompileResponse response;
    EXPECT_TRUE(
        client->Compile(&context, FromText<v1::CompileRequest>("source: 'int a;'"), &response)
            .ok());
  });
  server.compiler().WaitForBlocked(1);
  grpc::ClientContext context;
  v1::GetStatusResponse response;
  const grpc::Status status = client->GetStatus(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(DetailIn(status).available(), 1);
  EXPECT_GT(DetailIn(status).retry_after_ms(), 0);
  server.compiler().Unblock();
  first.join();
}

// scenario P51
TEST(RpcServerTest, HealthAndHitsFlowWhileEveryCompilerIsBusy) {
  TestServer server;
  auto client = server.Client();
  const auto request = FromText<v1::GetKernelRequest>(
      "template { name: 'copy' } params { key: 'n' value { integer: 64 } }");
  v1::GetKernelResponse kernel;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(client->GetKernel(&context, request, &kernel).ok());
  }
  server.compiler().Block();
  std::vector<std::thread> busy;
  for (int i = 0; i < 20; ++i) {
    busy.emplace_back([&, i] {
      grpc::ClientContext context;
      v1::CompileRequest compile;
      compile.set_source("int a" + std::to_string(i) + ";");
      v1::CompileResponse response;
      EXPECT_TRUE(client->Compile(&context, compile, &response).ok());
    });
  }
  server.compiler().WaitForBlocked(4);
  grpc::ClientContext context;
  EXPECT_TRUE(client->GetKernel(&context, request, &kernel).ok());
  std::string response;
  EXPECT_TRUE(CallRaw(server.Channel(), kHealthCheck, "", &response).ok());
  EXPECT_EQ(response, kServing);
  server.compiler().Unblock();
  for (std::thread& thread : busy) thread.join();
}

// scenario P53
TEST(RpcServerTest, DrainingRefusesNewCallsAndLetsThoseUnderWayEnd) {
  TestServer server;
  server.compiler().Block();
  auto client = server.Client();
  grpc::Status slow;
  std::thread under_way([&] {
    grpc::ClientContext context;
    v1::CompileResponse response;
    slow = client->Compile(&context, FromText<v1::CompileRequest>("source: 'int a;'"), &response);
  });
  server.compiler().WaitForBlocked(1);
  std::thread drain([&] { server.server().Drain(absl::Seconds(30)); });
  while (!server.context().draining) std::this_thread::yield();
  grpc::ClientContext context;
  v1::GetStatusResponse response;
  EXPECT_EQ(client->GetStatus(&context, {}, &response).error_code(), grpc::StatusCode::UNAVAILABLE);
  server.compiler().Unblock();
  under_way.join();
  drain.join();
  EXPECT_TRUE(slow.ok()) << slow.error_message();
}

}  // namespace
}  // namespace hone
