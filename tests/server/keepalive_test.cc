// Clients that ping: gRPC servers cut them off by default.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

// More often than the 10 s of ordinary clients, so that the test is short; gRPC sends one a second
// at most. After the third in a silence its servers close the connection, unless told otherwise.
constexpr int kPingEveryMs = 20;
constexpr std::chrono::seconds kSilence(7);

// A client that pings whether or not it calls, on a stream on which nothing comes, until its
// deadline.
grpc::Status WatchInSilence(const std::string& socket_path) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const auto stub = v1::KernelService::NewStub(grpc::CreateCustomChannel(
      "unix:" + socket_path, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kSilence);
  const auto reader = stub->Watch(&context, v1::WatchRequest());
  v1::WatchEvent event;
  while (reader->Read(&event)) {
  }
  return reader->Finish();
}

// scenario P42
TEST(KeepaliveTest, AClientThatPingsThroughASilenceIsNotCutOff) {
  TestServer server;
  const grpc::Status status = WatchInSilence(server.socket_path());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
}

class SilentService : public v1::KernelService::Service {
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::WatchEvent>*) override {
    while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    return grpc::Status::CANCELLED;
  }
};

// What the test above would see of a server that leaves gRPC's defaults.
TEST(KeepaliveTest, AServerWithGrpcsDefaultsCutsTheSameClientOff) {
  const auto directory = TemporaryDirectory::Create();
  ASSERT_TRUE(directory.ok());
  const std::string path = JoinPath(directory->path(), "s");
  SilentService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  const grpc::Status status = WatchInSilence(path);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  server->Shutdown(std::chrono::system_clock::now());
}

}  // namespace
}  // namespace hone
