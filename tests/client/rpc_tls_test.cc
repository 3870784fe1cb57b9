// The transport over TLS against a real gRPC server, and against what gRPC's own client makes of
// it.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/hone/client.h"
#include "client/cpp/rpc/rpc_channel.h"
#include "client/cpp/rpc_kernel_source.h"
#include "tests/client/fake_service.h"
#include "tests/client/rpc_calls.h"
#include "tests/client/tls_authority.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum absl::StatusCode;

constexpr char kService[] = "/hone.v1.KernelService/";

class RpcTlsTest : public testing::Test {
 protected:
  RpcTlsTest()
      : daemon_(authority_.Issue("DNS:localhost,IP:127.0.0.1")),
        channel_(Channel(daemon_.endpoint())) {}

  std::unique_ptr<RpcChannel> Channel(const std::string& endpoint) const {
    return *RpcChannel::Create({.endpoint = endpoint, .tls_ca_file = authority_.ca_file()});
  }
  absl::Status GetStatus(RpcChannel& channel, bool retry = false) const {
    return channel.Call(absl::StrCat(kService, "GetStatus"), "", Within(kLong, retry)).status();
  }

  const TlsAuthority authority_;
  FakeDaemon daemon_;
  const std::unique_ptr<RpcChannel> channel_;
};

TEST_F(RpcTlsTest, LargeMessagesArriveBothWays) {
  std::string bytes(size_t{20} << 20, 'x');
  for (size_t i = 0; i < bytes.size(); i += 1000) bytes[i] = static_cast<char>(i / 1000 % 251);
  *daemon_.service().kernel.mutable_kernel()->add_variants() = CopyVariant(bytes, 16, "", true);
  const auto reply = channel_->Call(absl::StrCat(kService, "GetKernel"), "", Within(kLong));
  ASSERT_THAT(reply, IsOk());
  v1::GetKernelResponse response;
  ASSERT_TRUE(response.ParseFromString(*reply));
  EXPECT_TRUE(response.kernel().variants(0).artifact_bytes() == bytes);

  v1::RegisterTemplateRequest request;
  request.mutable_template_()->add_files()->set_content(bytes);
  ASSERT_THAT(channel_->Call(absl::StrCat(kService, "RegisterTemplate"),
                             request.SerializeAsString(), Within(kLong)),
              IsOk());
  EXPECT_TRUE(daemon_.service().last_register().template_().files(0).content() == bytes);
}

TEST_F(RpcTlsTest, StreamsArriveWhole) {
  std::string bytes(size_t{30} << 20, 'x');
  daemon_.service().artifacts["hash"] = bytes;
  v1::GetArtifactRequest request;
  request.set_sha256("hash");
  std::string received;
  EXPECT_THAT(channel_->Stream(absl::StrCat(kService, "GetArtifact"), request.SerializeAsString(),
                               Within(kLong),
                               [&](const std::string& message) {
                                 v1::ArtifactChunk chunk;
                                 EXPECT_TRUE(chunk.ParseFromString(message));
                                 received += chunk.data();
                                 return true;
                               }),
              IsOk());
  EXPECT_TRUE(received == bytes);
}

TEST_F(RpcTlsTest, CallsOfManyThreadsArriveOverARestart) {
  std::atomic<bool> stop{false};
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const absl::Status status = GetStatus(*channel_, /*retry=*/true);
        // A server that is shut down at once says CANCELLED to what it was doing.
        EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
        ++good;
      }
    });
  }
  const auto await_more = [&] {
    for (const int before = good; good < before + 300;) std::this_thread::yield();
  };
  await_more();
  daemon_.Stop();
  // Renewed meanwhile, as ops teams do.
  FakeDaemon successor(authority_.Issue("IP:127.0.0.1"), daemon_.port());
  await_more();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(successor.service().calls("GetStatus"), 0);
}

TEST_F(RpcTlsTest, NamesAreCheckedAsAddressesAre) {
  EXPECT_THAT(GetStatus(*Channel(absl::StrCat("localhost:", daemon_.port()))), IsOk());
  FakeDaemon elsewhere(authority_.Issue("DNS:daemon.example,IP:10.0.0.1"));
  for (const char* host : {"localhost", "127.0.0.1"}) {
    EXPECT_THAT(GetStatus(*Channel(absl::StrCat(host, ":", elsewhere.port()))),
                StatusIs(kFailedPrecondition, HasSubstr(absl::StrCat("is not for '", host, "'"))));
  }
}

TEST_F(RpcTlsTest, APlainClientIsToldWhatToDo) {
  const auto plain = RpcChannel::Create({.endpoint = daemon_.endpoint()});
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(GetStatus(**plain).message(), HasSubstr("tls_ca_file"));
}

TEST_F(RpcTlsTest, KernelSourcesTakeTheFileOfTheEnvironmentForTcpOnly) {
  const auto answer = [](const std::string& endpoint, const std::string& ca_file) {
    const auto source = MakeRpcKernelSource({.endpoint = endpoint, .tls_ca_file = ca_file});
    if (!source.ok()) return source.status();
    GetKernelOptions options;
    options.template_name = "copy_1d";
    return (*source)->GetKernel(options).status();
  };
  daemon_.service().FailNext("GetKernel", {grpc::StatusCode::NOT_FOUND, "seen"});
  EXPECT_THAT(answer(daemon_.endpoint(), authority_.ca_file()), StatusIs(kNotFound, "seen"));
  setenv("HONE_TLS_CA_FILE", authority_.ca_file().c_str(), 1);
  daemon_.service().FailNext("GetKernel", {grpc::StatusCode::NOT_FOUND, "seen"});
  EXPECT_THAT(answer(daemon_.endpoint(), ""), StatusIs(kNotFound, "seen"));
  FakeDaemon local;
  local.service().FailNext("GetKernel", {grpc::StatusCode::NOT_FOUND, "seen"});
  EXPECT_THAT(answer(local.endpoint(), ""), StatusIs(kNotFound, "seen"));
  unsetenv("HONE_TLS_CA_FILE");
}

// One certificate serves both clients.
TEST_F(RpcTlsTest, TheClientByGrpcUnderstandsTheSameFile) {
  EXPECT_THAT(Client::Connect({.endpoint = absl::StrCat("localhost:", daemon_.port()),
                               .tls_ca_file = authority_.ca_file()}),
              IsOk());
}

}  // namespace
}  // namespace hone
