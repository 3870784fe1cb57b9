// Channels over TLS against scripted servers.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/rpc/rpc_channel.h"
#include "runtime/base/sanitizers.h"
#include "tests/client/rpc_calls.h"
#include "tests/client/scripted_server.h"
#include "tests/client/tls_authority.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace http2;
using enum absl::StatusCode;

class RpcTlsWireTest : public testing::Test {
 protected:
  ScriptedTlsOptions Tls() const { return {.identity = identity_}; }
  std::unique_ptr<RpcChannel> Channel(const std::string& endpoint,
                                      absl::Duration connect_timeout = kLong) const {
    return *RpcChannel::Create({.endpoint = endpoint,
                                .tls_ca_file = authority_.ca_file(),
                                .connect_timeout = connect_timeout});
  }
  // The failure of a call that may be repeated, which this one must not be.
  static absl::Status FailsAtOnce(RpcChannel& channel) {
    const absl::Time began = absl::Now();
    absl::Status failure = channel.Call(kMethod, "", Within(kLong, /*retry=*/true)).status();
    EXPECT_LT(absl::Now() - began, kLong / 2);
    EXPECT_EQ(channel.WaitUntilConnected(kLong), failure);
    EXPECT_LT(absl::Now() - began, kLong / 2) << "waiting longer would not help";
    return failure;
  }

  const TlsAuthority authority_;
  const TlsIdentity identity_ = authority_.Issue("IP:127.0.0.1");
};

ScriptedServer::Script TlsServing(const std::string& reply) {
  return [reply](ScriptedConnection& connection, int) { Serve(connection, reply); };
}

TEST_F(RpcTlsWireTest, CallsShareOneConnection) {
  ScriptedServer server(TlsServing("reply"), Tls());
  const auto channel = Channel(server.endpoint());
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) EXPECT_TRUE(Answers(*channel, "reply"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(RpcTlsWireTest, RepliesOfOneByteARecordAreStillReplies) {
  ScriptedServer server(
      [](ScriptedConnection& connection, int) {
        if (!connection.Greet()) return;
        const uint32_t stream = connection.ReadRequest();
        for (const char byte : Reply(stream, "reply")) {
          if (!connection.Send(absl::string_view(&byte, 1))) return;
        }
        connection.ReadToEnd();
      },
      Tls());
  EXPECT_THAT(Channel(server.endpoint())->Call(kMethod, "", Within(kLong)), IsOkAndHolds("reply"));
}

TEST_F(RpcTlsWireTest, AConnectionCutWithinAReplyFailsTheCallUnlessItMayBeRepeated) {
  ScriptedServer server(
      [](ScriptedConnection& connection, int number) {
        if (number % 2 == 1) return Serve(connection, "reply");
        if (!connection.Greet()) return;
        const std::string reply = Reply(connection.ReadRequest(), std::string(100'000, 'r'));
        connection.Send(absl::string_view(reply).substr(0, reply.size() / 2));
      },
      Tls());
  EXPECT_THAT(Channel(server.endpoint())->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("was lost")));
  server.AwaitConnections(1);
  const auto channel = Channel(server.endpoint());
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("reply"));
  ScriptedServer again(
      [](ScriptedConnection& connection, int number) {
        if (number > 0) return Serve(connection, "reply");
        if (connection.Greet()) connection.Send(ReplyBegins(connection.ReadRequest()));
      },
      Tls());
  EXPECT_THAT(Channel(again.endpoint())->Call(kMethod, "", Within(kLong, /*retry=*/true)),
              IsOkAndHolds("reply"));
}

TEST_F(RpcTlsWireTest, AnEndSaidInTlsEndsTheConnection) {
  ScriptedServer server(
      [](ScriptedConnection& connection, int number) {
        if (number > 0) return Serve(connection, "second");
        if (!connection.Greet()) return;
        connection.Send(Reply(connection.ReadRequest(), "first"));
        connection.ReadRequest();
        connection.EndTls();
        connection.ReadToEnd();
      },
      Tls());
  const auto channel = Channel(server.endpoint());
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("first"));
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("the daemon closed it")));
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("second"));
}

TEST_F(RpcTlsWireTest, ADaemonThatIsNotToBeTrustedIsRefusedAtOnce) {
  ScriptedServer foreign(TlsServing("reply"), {.identity = TlsAuthority().Issue("IP:127.0.0.1")});
  EXPECT_THAT(FailsAtOnce(*Channel(foreign.endpoint())),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("issued by nobody"), HasSubstr(authority_.ca_file()))));
  ScriptedServer elsewhere(TlsServing("reply"), {.identity = authority_.Issue("DNS:localhost")});
  EXPECT_THAT(FailsAtOnce(*Channel(elsewhere.endpoint())),
              StatusIs(kFailedPrecondition, HasSubstr("is not for '127.0.0.1'")));
  ScriptedServer expired(TlsServing("reply"),
                         {.identity = authority_.Issue("IP:127.0.0.1", -9, -1)});
  EXPECT_THAT(FailsAtOnce(*Channel(expired.endpoint())),
              StatusIs(kFailedPrecondition, HasSubstr("has expired")));
  ScriptedServer other(TlsServing("reply"), {.identity = identity_, .protocol = ""});
  EXPECT_THAT(FailsAtOnce(*Channel(other.endpoint())),
              StatusIs(kFailedPrecondition, HasSubstr("HTTP/2")));
}

TEST_F(RpcTlsWireTest, AServerInPlainTextIsToldFromOneThatSpeaksTls) {
  ScriptedServer plain(
      [](ScriptedConnection& connection, int) {
        connection.Send(Frame(kSettings, 0, 0, ""));
        connection.ReadToEnd();
      },
      ScriptedServer::Kind::kTcp);
  EXPECT_THAT(FailsAtOnce(*Channel(plain.endpoint())),
              StatusIs(kFailedPrecondition, HasSubstr("does not speak TLS on this port")));
}

TEST_F(RpcTlsWireTest, AClientInPlainTextIsToldThatTheServerSpeaksTls) {
  ScriptedServer alerting(
      [](ScriptedConnection& connection, int) {
        if (connection.Greet(/*settings=*/false)) connection.Send("\x15\x03\x01");
        connection.ReadToEnd();
      },
      ScriptedServer::Kind::kTcp);
  EXPECT_THAT(FailsAtOnce(*ChannelTo(alerting.endpoint())),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("speaks TLS on this port"), HasSubstr("tls_ca_file"))));
  // Many servers only hang up.
  ScriptedServer tls(TlsServing("reply"), Tls());
  EXPECT_THAT(ChannelTo(tls.endpoint())->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("if it speaks TLS there, name its authority")));
}

TEST_F(RpcTlsWireTest, AHandshakeThatDoesNotEndIsGivenUp) {
  ScriptedServer silent([](ScriptedConnection& connection, int) { connection.ReadToEnd(); },
                        ScriptedServer::Kind::kTcp);
  EXPECT_THAT(Channel(silent.endpoint(), absl::Milliseconds(100))->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("does not answer with TLS")));
  ScriptedServer closing([](ScriptedConnection&, int) {}, ScriptedServer::Kind::kTcp);
  EXPECT_THAT(Channel(closing.endpoint())->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("within the TLS handshake")));
  EXPECT_THAT(ChannelTo(closing.endpoint())->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("if it speaks TLS there")));
}

TEST_F(RpcTlsWireTest, AnotherAuthorityIsTakenUpByTheNextConnection) {
  const TlsAuthority successor("successor");
  ScriptedServer server(TlsServing("reply"), {.identity = successor.Issue("IP:127.0.0.1")});
  const auto channel = Channel(server.endpoint());
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)),
              StatusIs(kFailedPrecondition, HasSubstr("issued by nobody")));
  const absl::StatusOr<std::string> renewed = ReadFile(successor.ca_file());
  ASSERT_THAT(renewed, IsOk());
  ASSERT_THAT(WriteFileAtomic(authority_.ca_file(), *renewed), IsOk());
  absl::Status status;
  // The next try to connect comes after the pause that follows a failure.
  while (!(status = channel->Call(kMethod, "", Within(kLong)).status()).ok() &&
         absl::IsFailedPrecondition(status)) {
    std::this_thread::yield();
  }
  EXPECT_THAT(status, IsOk());
}

// scenario P44
TEST_F(RpcTlsWireTest, AForkedChildShakesHandsAnewAndTheParentGoesOn) {
#ifdef HONE_TSAN
  GTEST_SKIP() << "ThreadSanitizer takes no threads after a fork";
#endif
  ScriptedServer server(TlsServing("reply"), Tls());
  auto channel = Channel(server.endpoint());
  ASSERT_TRUE(Answers(*channel, "reply"));
  const pid_t child = fork();
  if (child == 0) _exit(Answers(*channel, "reply") && Answers(*channel, "reply") ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(Answers(*channel, "reply"));
  EXPECT_EQ(server.connections(), 2);
}

// A server in a process of its own, so that no thread of this one but the channel's uses OpenSSL.
class TlsServerProcess {
 public:
  TlsServerProcess(const TlsIdentity& identity, const std::string& reply) {
    std::array<int, 2> fds{-1, -1};
    if (pipe(fds.data()) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      const ScriptedServer server(TlsServing(reply), {.identity = identity});
      const std::string endpoint = server.endpoint();
      const ssize_t told = write(fds[1], endpoint.data(), endpoint.size());
      while (told > 0) pause();
      _exit(1);
    }
    close(fds[1]);
    std::array<char, 64> endpoint;
    const ssize_t size = read(fds[0], endpoint.data(), endpoint.size());
    endpoint_.assign(endpoint.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
    close(fds[0]);
  }
  ~TlsServerProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  const std::string& endpoint() const { return endpoint_; }

 private:
  pid_t pid_ = -1;
  std::string endpoint_;
};

// The exit code of the child that runs `body`; -1 for a signal, an alarm among them.
int ExitOfChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#ifdef HONE_SANITIZED
#define SKIP_TLS_FORK() GTEST_SKIP() << "the sanitizers do not survive a fork among busy threads"
#else
#define SKIP_TLS_FORK() static_cast<void>(0)
#endif

// scenario P44
TEST_F(RpcTlsWireTest, AForkInTheMiddleOfCallsAndHandshakesLeavesChannelsThatWork) {
  SKIP_TLS_FORK();
  const TlsServerProcess server(identity_, "reply");
  const auto channel = Channel(server.endpoint());
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    while (!stop) EXPECT_TRUE(Answers(*channel, "reply"));
  });
  threads.emplace_back([&] {
    while (!stop) EXPECT_TRUE(Answers(*Channel(server.endpoint()), "reply"));
  });
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(ExitOfChild(
                  [&] { return Answers(*channel, "reply") && Answers(*channel, "reply") ? 7 : 1; }),
              7);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Answers(*channel, "reply"));
}

// OpenSSL takes itself apart at exit, whoever still uses it.
TEST_F(RpcTlsWireTest, AProcessExitsCleanlyFromTheMiddleOfItsCalls) {
  SKIP_TLS_FORK();
  const TlsServerProcess server(identity_, std::string(100'000, 'r'));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ExitOfChild([&]() -> int {
                auto* const channel = Channel(server.endpoint()).release();
                for (int thread = 0; thread < 4; ++thread) {
                  std::thread([channel] {
                    while (true) Answers(*channel, "");
                  }).detach();
                }
                for (int call = 0; call < 3; ++call) Answers(*channel, "");
                std::exit(7);
              }),
              7);
  }
}

TEST(RpcTlsOptionsTest, WhatCannotBeIsRefusedWhenTheChannelIsMade) {
  const TlsAuthority authority;
  EXPECT_THAT(
      RpcChannel::Create({.endpoint = "localhost:7433", .tls_ca_file = "/etc/no-ca.pem"}).status(),
      StatusIs(kInvalidArgument, AllOf(HasSubstr("tls_ca_file"), HasSubstr("/etc/no-ca.pem"))));
  EXPECT_THAT(
      RpcChannel::Create({.endpoint = "unix:/s", .tls_ca_file = authority.ca_file()}).status(),
      StatusIs(kInvalidArgument, AllOf(HasSubstr("unix:/s"), HasSubstr("tls_ca_file"))));
  EXPECT_THAT(RpcChannel::Create({.endpoint = "localhost:7433",
                                  .tls_ca_file = authority.ca_file(),
                                  .tls_library = "libssl-of-nobody.so.3"})
                  .status(),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("libssl-of-nobody.so.3"), HasSubstr("libssl3"))));
  // Without TLS nobody asks for it.
  EXPECT_THAT(RpcChannel::Create({.endpoint = "localhost:7433", .tls_library = "libssl-of-nobody"})
                  .status(),
              IsOk());
  EXPECT_THAT(RpcChannel::Create({.endpoint = "localhost:7433", .tls_ca_file = "system"}).status(),
              IsOk());
}

}  // namespace
}  // namespace hone
