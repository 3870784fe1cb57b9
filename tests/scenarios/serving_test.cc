// What an inference server sees of the real daemon: deadlines, cold keys, restarts, versions, a
// strange environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/hone/client.h"
#include "google/protobuf/text_format.h"
#include "runtime/base/sanitizers.h"
#include "runtime/base/unique_fd.h"
#include "tests/scenarios/daemon_process.h"

namespace hone {
namespace {

using ::testing::HasSubstr;

v1::GetKernelRequest CopyOf(int64_t n, const std::string& more = "") {
  v1::GetKernelRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("template { name: 'copy_1d' } params { key: 'n' value { integer: ", n, " } } ",
                   more),
      &request));
  return request;
}

grpc::Status Get(v1::KernelService::Stub& client, const v1::GetKernelRequest& request,
                 v1::GetKernelResponse* response, absl::Duration timeout = absl::Minutes(15)) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  return client.GetKernel(&context, request, response);
}

class ServingTest : public ::testing::Test {
 protected:
  // Short, so that the socket's path fits.
  ServingTest() : directory_(*TemporaryDirectory::Create("/tmp", "hone")) {}

  void Start(DaemonOptions options = {}) {
    daemon_.reset();
    auto started = DaemonProcess::Start(directory_.path(), std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    daemon_ = *std::move(started);
    const v1::GetStatusResponse status = daemon_->WaitForEngine();
    for (const v1::CompilerStatus& compiler : status.compilers()) {
      // Quicker than a host compiler, and needs no GPU.
      if (compiler.kind() == "nvrtc" && compiler.available()) architecture_ = "sm_90";
    }
  }
  std::string Target() const {
    return absl::StrCat("target { architecture: '", architecture_, "' } max_wait_ms: 600000 ");
  }
  // Types of copy_1d, each a program of its own.
  static std::string OfType(const std::string& type) {
    return absl::StrCat("params { key: 'T' value { text: '", type, "' } } ");
  }
  int64_t Counter(const std::string& name) { return daemon_->Status().counters().at(name); }

  TemporaryDirectory directory_;
  std::string architecture_ = "cpu";
  std::unique_ptr<DaemonProcess> daemon_;
};

// scenario P41
TEST_F(ServingTest, TheCompileOfACallerWhoGaveUpServesItsRetry) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto client = daemon_->Client();
  v1::GetKernelResponse response;
  // No compiler of CUDA C++ is as quick as this.
  const absl::Time began = absl::Now();
  const grpc::Status late = Get(*client, CopyOf(4096), &response, absl::Milliseconds(5));
  EXPECT_EQ(late.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << late.error_message();
  EXPECT_LT(absl::Now() - began, absl::Seconds(5));
  ASSERT_TRUE(Get(*client, CopyOf(4096), &response).ok());
  const int64_t compiles = Counter("compiles");
  EXPECT_LE(compiles, response.kernel().variants_size());
  const int64_t hits = Counter("memory_hits");
  ASSERT_TRUE(Get(*client, CopyOf(4096), &response).ok());
  EXPECT_EQ(Counter("memory_hits"), hits + 1);
  EXPECT_EQ(Counter("compiles"), compiles);
}

// scenario P47
TEST_F(ServingTest, AColdKeyIsAnsweredAtOnceAndBuiltForTheNextCall) {
  ASSERT_NO_FATAL_FAILURE(Start({.arguments = {"--workers", "1"}}));
  const auto client = daemon_->Client();
  // Others wait for compiles meanwhile.
  std::vector<std::thread> others;
  for (const char* type : {"F16", "BF16", "U8"}) {
    others.emplace_back([&, type, other = daemon_->Client()] {
      v1::GetKernelResponse response;
      const grpc::Status status = Get(*other, CopyOf(64, OfType(type) + Target()), &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
    });
  }
  v1::GetKernelResponse response;
  std::vector<double> took_ms;
  for (int i = 0; i < 21; ++i) {
    const absl::Time began = absl::Now();
    const grpc::Status status =
        Get(*client, CopyOf(1'000'000 + i, "policy: NO_WAIT " + Target()), &response);
    took_ms.push_back(absl::ToDoubleMilliseconds(absl::Now() - began));
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::NOT_FOUND)
        << status.error_message();
  }
  std::nth_element(took_ms.begin(), took_ms.begin() + 10, took_ms.end());
#ifdef HONE_SANITIZED
  constexpr double kAtOnceMs = 200;  // of a daemon that runs several times slower
#else
  constexpr double kAtOnceMs = 20;
#endif
  EXPECT_LT(took_ms[10], kAtOnceMs) << "the median; single ones may meet a busy machine";
  // Built although nobody waited.
  grpc::Status status;
  do {
    status = Get(*client, CopyOf(1'000'000, "policy: NO_WAIT " + Target()), &response);
    // Between looks: the build runs at idle priority, and must not starve behind them.
    absl::SleepFor(absl::Milliseconds(20));
  } while (status.error_code() == grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.source(), v1::DEFAULT);
  for (std::thread& other : others) other.join();
}

// scenario P45
TEST_F(ServingTest, AClientWorksAgainSoonAfterARestart) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto client = Client::Connect(
      {.endpoint = "unix:" + daemon_->socket_path(), .connect_timeout = absl::Milliseconds(100)});
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(client->GetStatus().ok());
  daemon_->Kill();
  daemon_->Wait();
  // Down for some calls, as long as a client's back-off takes to grow.
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(client->GetStatus().ok());
  ASSERT_NO_FATAL_FAILURE(Start());
  const absl::Time up = absl::Now();
  while (!client->GetStatus().ok()) {
    ASSERT_LT(absl::Now() - up, absl::Seconds(30));
  }
  EXPECT_LT(absl::Now() - up, absl::Seconds(2));
}

// What a desktop, a proxy or a debugging session leaves behind must not keep the daemon from
// serving.
TEST_F(ServingTest, AStrangeEnvironmentDoesNotMatter) {
  ASSERT_NO_FATAL_FAILURE(Start({.environment = {
                                     "http_proxy=http://127.0.0.1:1",
                                     "https_proxy=http://127.0.0.1:1",
                                     "grpc_proxy=http://127.0.0.1:1",
                                     "GRPC_DNS_RESOLVER=nonsense",
                                     "GRPC_VERBOSITY=nonsense",
                                     "NVRTC_PREPEND_FLAGS=--nonsense",
                                     "NVRTC_APPEND_FLAGS=--nonsense",
                                     "LC_ALL=xx_YY.nonsense",
                                 }}));
  v1::GetKernelResponse response;
  const grpc::Status status = Get(*daemon_->Client(), CopyOf(4096), &response);
  EXPECT_TRUE(status.ok()) << status.error_message() << daemon_->Log();
}

// A connected socket of which nothing comes.
UniqueFd IdleConnection(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

// More clients than descriptors: those who are connected are served, the others once there is room.
TEST_F(ServingTest, RunningOutOfDescriptorsCostsOnlyThoseWhoComeThen) {
  ASSERT_NO_FATAL_FAILURE(Start({.file_limit = 160}));
  const auto client = daemon_->Client();
  v1::GetKernelResponse response;
  ASSERT_TRUE(Get(*client, CopyOf(4096), &response).ok());
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 200; ++i) idle.push_back(IdleConnection(daemon_->socket_path()));
  const grpc::Status refused = Get(*daemon_->Client(), CopyOf(4096), &response, absl::Seconds(5));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE) << refused.error_message();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Get(*client, CopyOf(4096), &response).ok());
  idle.clear();
  const auto late = daemon_->Client();
  const absl::Time began = absl::Now();
  while (!Get(*late, CopyOf(4096), &response).ok()) {
    ASSERT_LT(absl::Now() - began, absl::Seconds(30));
  }
}

// Clients that stop reading, and clients that die, cost the others nothing.
TEST_F(ServingTest, AStoppedOrKilledClientIsNobodyElsesTrouble) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto client = daemon_->Client();
  v1::GetKernelResponse response;
  ASSERT_TRUE(Get(*client, CopyOf(4096), &response).ok());
  Subprocess::Options options;
  options.program = BinaryPath("hone");
  options.arguments = {
      "--endpoint", "unix:" + daemon_->socket_path(), "get", "copy_1d", "n=5000", "--policy",
      "wait_tuned"};
  std::vector<Subprocess> clients;
  for (int i = 0; i < 4; ++i) {
    auto spawned = Subprocess::Spawn(options);
    ASSERT_TRUE(spawned.ok()) << spawned.status();
    clients.push_back(*std::move(spawned));
  }
  // And the call that asks.
  while (Counter("calls") < 5) std::this_thread::yield();
  for (size_t i = 0; i < clients.size(); ++i) {
    kill(clients[i].pid(), i % 2 == 0 ? SIGSTOP : SIGKILL);
  }
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Get(*client, CopyOf(4096), &response).ok());
  for (Subprocess& stopped : clients) stopped.Kill();
  ASSERT_TRUE(Get(*client, CopyOf(4096), &response).ok());
}

}  // namespace
}  // namespace hone
