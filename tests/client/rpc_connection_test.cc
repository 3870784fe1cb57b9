// The life of a channel's connections: when they are made, lost, drained and inherited.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/rpc/rpc_channel.h"
#include "runtime/base/notification.h"
#include "runtime/base/sanitizers.h"
#include "tests/client/rpc_calls.h"
#include "tests/client/scripted_server.h"
#include "tests/testing/forking.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace http2;
using enum absl::StatusCode;

ScriptedServer::Script Serving(const std::string& reply) {
  return [reply](ScriptedConnection& connection, int) { Serve(connection, reply); };
}

TEST(RpcConnectionTest, NothingIsConnectedBeforeTheFirstCall) {
  ScriptedServer server(Serving("reply"));
  const auto channel = ChannelTo(server.endpoint());
  EXPECT_EQ(server.connections(), 0);
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("reply"));
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("reply"));
  EXPECT_EQ(server.connections(), 1);
}

TEST(RpcConnectionTest, AChannelThatEndsHangsUp) {
  Notification ended;
  ScriptedServer server([&](ScriptedConnection& connection, int) {
    Serve(connection, "reply");
    ended.Notify();
  });
  ASSERT_THAT(ChannelTo(server.endpoint())->Call(kMethod, "", Within(kLong)), IsOk());
  EXPECT_TRUE(ended.WaitForNotificationWithTimeout(kLong));
}

TEST(RpcConnectionTest, WithoutADaemonACallFailsAtOnceAndSaysWhatToStart) {
  const auto channel = ChannelTo("unix:/tmp/hone-no-such-directory/s");
  const absl::Time began = absl::Now();
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, AllOf(HasSubstr("/tmp/hone-no-such-directory/s"),
                                           HasSubstr("no such socket"), HasSubstr("'honed'"))));
  // Too little is left for a second attempt.
  EXPECT_THAT(channel->Call(kMethod, "", Within(absl::Milliseconds(50), /*retry=*/true)),
              StatusIs(kUnavailable, HasSubstr("no such socket")));
  EXPECT_LT(absl::Now() - began, absl::Seconds(5));
}

// scenario P45
TEST(RpcConnectionTest, ADaemonThatDiedIsDiagnosedAndItsSuccessorIsFound) {
  auto server = std::make_unique<ScriptedServer>(Serving("first"));
  const auto channel = ChannelTo(server->endpoint());
  ASSERT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("first"));
  server->Stop();
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(channel->Call(kMethod, "", Within(absl::Milliseconds(100), /*retry=*/true)),
                StatusIs(kUnavailable, HasSubstr("no such socket")));
  }
  const ScriptedServer successor(Serving("second"), server->socket_path());
  const absl::Time up = absl::Now();
  absl::StatusOr<std::string> reply = channel->Call(kMethod, "", Within(kLong));
  while (!reply.ok() && absl::Now() < up + kLong) {
    absl::SleepFor(absl::Milliseconds(20));
    reply = channel->Call(kMethod, "", Within(kLong));
  }
  EXPECT_THAT(reply, IsOkAndHolds("second"));
  EXPECT_LT(absl::Now() - up, absl::Seconds(3));
}

TEST(RpcConnectionTest, CallsThatMayBeRepeatedOutlastARestart) {
  ScriptedServer server(Serving("first"));
  const auto channel = ChannelTo(server.endpoint());
  ASSERT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOk());
  server.Stop();
  std::optional<ScriptedServer> successor;
  std::thread restart([&] {
    absl::SleepFor(absl::Milliseconds(300));
    successor.emplace(Serving("second"), server.socket_path());
  });
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong, /*retry=*/true)), IsOkAndHolds("second"));
  restart.join();
}

TEST(RpcConnectionTest, AConnectionLostWithinAReplyFailsTheCallUnlessItMayBeRepeated) {
  std::atomic<int> requests{0};
  ScriptedServer server([&](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    while (const uint32_t stream = connection.ReadRequest()) {
      const std::string reply = Reply(stream, "reply");
      const bool whole = requests++ % 2 == 1;
      connection.Send(absl::string_view(reply).substr(0, reply.size() - (whole ? 0 : 20)));
      if (!whole) return;
    }
  });
  const auto channel = ChannelTo(server.endpoint());
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("was lost")));
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("reply"));
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong, /*retry=*/true)), IsOkAndHolds("reply"));
  EXPECT_EQ(requests, 4);
}

TEST(RpcConnectionTest, ACallOnAConnectionThatDiedIdleIsSentOnANewOne) {
  for (int round = 0; round < 50; ++round) {
    Notification closed;
    ScriptedServer server([&](ScriptedConnection& connection, int number) {
      if (number > 0) return Serve(connection, "second");
      if (!connection.Greet()) return;
      connection.Send(Reply(connection.ReadRequest(), "first"));
      connection.Shutdown();
      closed.Notify();
    });
    const auto channel = ChannelTo(server.endpoint());
    ASSERT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("first"));
    closed.WaitForNotification();
    // Whether the channel has noticed or not.
    ASSERT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("second"));
  }
}

TEST(RpcConnectionTest, ADrainingDaemonFinishesWhatRunsAndNewCallsGoElsewhere) {
  Notification draining;
  Notification finish;
  ScriptedServer server([&](ScriptedConnection& connection, int number) {
    if (number > 0) return Serve(connection, "new");
    if (!connection.Greet()) return;
    const uint32_t stream = connection.ReadRequest();
    // As gRPC drains: first a GOAWAY that excludes nothing, then what was there.
    connection.Send(GoAway(0x7fffffff, 0) + Frame(kPing, 0, 0, "12345678"));
    if (!connection.ReadUntil(kPing)) return;
    draining.Notify();
    connection.Send(GoAway(stream, 0));
    finish.WaitForNotification();
    connection.Send(Reply(stream, "old"));
    connection.ReadToEnd();
  });
  const auto channel = ChannelTo(server.endpoint());
  std::thread running(
      [&] { EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("old")); });
  draining.WaitForNotification();
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("new"));
  finish.Notify();
  running.join();
  EXPECT_EQ(server.connections(), 2);
}

TEST(RpcConnectionTest, WhatADrainingDaemonDidNotSeeIsSentAgain) {
  ScriptedServer server([](ScriptedConnection& connection, int number) {
    if (number > 0) return Serve(connection, "new");
    if (!connection.Greet()) return;
    connection.ReadRequest();
    connection.Send(GoAway(0, 0));
    connection.ReadToEnd();
  });
  EXPECT_THAT(ChannelTo(server.endpoint())->Call(kMethod, "", Within(kLong)), IsOkAndHolds("new"));
}

TEST(RpcConnectionTest, AServerThatNeverSaysSettingsIsGivenUp) {
  ScriptedServer server([](ScriptedConnection& connection, int) { connection.ReadToEnd(); });
  const auto channel = ChannelTo(server.endpoint());
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("accepts the connection but does not answer")));
  EXPECT_THAT(
      ChannelTo(server.endpoint())->Call(kMethod, "", Within(absl::Milliseconds(50))),
      StatusIs(kDeadlineExceeded, AllOf(HasSubstr(kMethod), HasSubstr("accepts the connection"))));
  EXPECT_THAT(ChannelTo(server.endpoint())->WaitUntilConnected(absl::Milliseconds(100)),
              StatusIs(kUnavailable, HasSubstr("accepts the connection but does not answer")));
}

TEST(RpcConnectionTest, AServerThatHangsUpOnEverybodyIsNotCalledWithoutEnd) {
  ScriptedServer server([](ScriptedConnection&, int) {});
  const auto channel = ChannelTo(server.endpoint());
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong, /*retry=*/true)),
              StatusIs(kUnavailable, HasSubstr("lost before the daemon answered")));
  EXPECT_LE(server.connections(), 6);
}

TEST(RpcConnectionTest, WaitingForAConnectionOutlastsADaemonsStart) {
  ScriptedServer server(Serving("reply"));
  const auto channel = ChannelTo(server.endpoint());
  server.Stop();
  EXPECT_THAT(channel->WaitUntilConnected(absl::Milliseconds(50)),
              StatusIs(kUnavailable, HasSubstr("no such socket")));
  std::optional<ScriptedServer> started;
  std::thread start([&] {
    absl::SleepFor(absl::Milliseconds(200));
    started.emplace(Serving("reply"), server.socket_path());
  });
  EXPECT_THAT(channel->WaitUntilConnected(kLong), IsOk());
  start.join();
  EXPECT_THAT(channel->WaitUntilConnected(absl::ZeroDuration()), IsOk());
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("reply"));
  EXPECT_EQ(started->connections(), 1);
}

TEST(RpcConnectionTest, OneTryToConnectTellsWhatIsKnown) {
  ScriptedServer server(Serving("reply"));
  const auto channel = ChannelTo(server.endpoint());
  EXPECT_THAT(channel->TryToConnect(kLong), IsOk());
  server.Stop();
  // However long it might wait.
  absl::Status gone = channel->TryToConnect(absl::InfiniteDuration());
  while (gone.ok()) gone = channel->TryToConnect(absl::InfiniteDuration());  // not noticed yet
  EXPECT_THAT(gone, StatusIs(kUnavailable, HasSubstr("no such socket")));
  EXPECT_THAT(channel->TryToConnect(absl::InfiniteDuration()),
              StatusIs(kUnavailable, HasSubstr("no such socket")));
  ScriptedServer started(Serving("reply"), server.socket_path());
  // Found by whoever asks when the next try is due; nobody waits in between.
  while (!channel->TryToConnect(kLong).ok()) {
  }
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("reply"));
}

TEST(RpcConnectionTest, OneTryToConnectDoesNotWaitTwiceForASilentServer) {
  ScriptedServer server([](ScriptedConnection& connection, int) { connection.ReadToEnd(); });
  const auto channel = ChannelTo(server.endpoint());  // gives up after 0.3 s
  EXPECT_THAT(channel->TryToConnect(kLong), StatusIs(kUnavailable, HasSubstr("does not answer")));
  server.AwaitConnections(1);
  const absl::Time began = absl::Now();
  int tries = 0;
  // The next connection is tried beside, and is silent, too.
  for (; server.connections() < 3 && absl::Now() - began < kLong; ++tries) {
    EXPECT_THAT(channel->TryToConnect(kLong), StatusIs(kUnavailable, HasSubstr("not answer")));
  }
  EXPECT_GT(tries, 3);
}

TEST(RpcConnectionTest, ManyThreadsShareOneConnection) {
  ScriptedServer server(Serving("reply"));
  const auto channel = ChannelTo(server.endpoint());
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 20; ++call) {
        good += Answers(*channel, "reply") ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 64 * 20);
  EXPECT_EQ(server.connections(), 1);
}

// The environment's proxies are for the web; TCP must not ask them either.
TEST(RpcConnectionTest, TcpWorksAndAsksNoProxy) {
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy", "all_proxy"}) {
    setenv(name, "http://127.0.0.1:1", 1);
  }
  ScriptedServer server(Serving("reply"), ScriptedServer::Kind::kTcp);
  EXPECT_THAT(ChannelTo(server.endpoint())->Call(kMethod, "", Within(kLong)),
              IsOkAndHolds("reply"));
  server.Stop();
  EXPECT_THAT(ChannelTo(server.endpoint())->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("no hone daemon answers at " + server.endpoint())));
}

TEST(RpcConnectionTest, AHostThatDoesNotResolveIsNoDaemon) {
  const auto channel = ChannelTo("no-such-host.invalid:7433");
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("no-such-host.invalid:7433")));
}

std::set<int> OpenFds() {
  std::set<int> fds;
  DIR* directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    int fd = 0;
    if (absl::SimpleAtoi(entry->d_name, &fd) && fd != dirfd(directory)) fds.insert(fd);
  }
  closedir(directory);
  return fds;
}

TEST(RpcConnectionTest, DescriptorsAreCloseOnExecAndWorkAboveAThousand) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit before = limit;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 2048) GTEST_SKIP() << "only " << limit.rlim_cur << " descriptors allowed";
  ScriptedServer server(Serving("reply"));
  std::vector<UniqueFd> fillers;
  while (fillers.empty() || fillers.back().get() < 1100) {
    fillers.emplace_back(fcntl(0, F_DUPFD_CLOEXEC, 0));
    ASSERT_TRUE(fillers.back().valid());
  }
  const std::set<int> others = OpenFds();
  const auto channel = ChannelTo(server.endpoint());
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("reply"));
  int above = 0;
  for (const int fd : OpenFds()) {
    if (others.count(fd) > 0) continue;
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd;
    above += fd > 1024 ? 1 : 0;
  }
  EXPECT_GE(above, 2);  // the connection and the wake-up at least
  setrlimit(RLIMIT_NOFILE, &before);
}

// The signals that the channel's thread blocks, as the kernel says; 0 if there is no such thread.
uint64_t BlockedSignals() {
  uint64_t blocked = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = readdir(tasks)) {
    std::ifstream status(absl::StrCat("/proc/self/task/", entry->d_name, "/status"));
    std::string line;
    bool ours = false;
    while (std::getline(status, line)) {
      ours = ours || line == "Name:\thone-rpc";
      if (ours && absl::StartsWith(line, "SigBlk:"))
        blocked = std::stoull(line.substr(8), nullptr, 16);
    }
  }
  closedir(tasks);
  return blocked;
}

TEST(RpcConnectionTest, TheThreadTakesNoSignalsButItsOwnFaults) {
  ScriptedServer server(Serving("reply"));
  const auto channel = ChannelTo(server.endpoint());
  ASSERT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOk());
  const uint64_t blocked = BlockedSignals();
  const auto blocks = [&](int signal) { return (blocked >> (signal - 1) & 1) != 0; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGALRM, SIGUSR1, SIGPIPE}) {
    EXPECT_TRUE(blocks(signal)) << signal;
  }
  EXPECT_FALSE(blocks(SIGSEGV));
}

// Runs `body` in a forked child; whether it returned true.
bool TrueInChild(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#ifdef HONE_TSAN
#define SKIP_FORK() GTEST_SKIP() << "ThreadSanitizer takes no threads after a fork"
#else
#define SKIP_FORK() static_cast<void>(0)
#endif

// scenario P44
TEST(RpcConnectionTest, AForkedChildConnectsAnewAndTheParentGoesOn) {
  SKIP_FORK();
  ScriptedServer server(Serving("reply"));
  auto channel = ChannelTo(server.endpoint());
  ASSERT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOk());
  EXPECT_TRUE(
      TrueInChild([&] { return Answers(*channel, "reply") && Answers(*channel, "reply"); }));
  EXPECT_EQ(server.connections(), 2);
  // A child that only takes the channel apart disturbs nobody either.
  EXPECT_TRUE(TrueInChild([&] {
    channel.reset();
    return true;
  }));
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("reply"));
  EXPECT_EQ(server.connections(), 2);
}

// scenario P44
TEST(RpcConnectionTest, AForkInTheMiddleOfCallsLeavesAChannelThatWorks) {
#ifdef HONE_SANITIZED
  GTEST_SKIP() << "the sanitizers' allocators do not survive a fork among busy threads";
#endif
  ScriptedServer server(Serving("reply"));
  const auto channel = ChannelTo(server.endpoint());
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      while (!stop) bad += Answers(*channel, "reply") ? 0 : 1;
    });
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(TrueInChild([&] { return Answers(*channel, "reply"); }));
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(bad, 0);
}

TEST(RpcConnectionTest, AStoppedDaemonCostsNoMoreThanTheDeadline) {
  SKIP_FORK();
  const absl::StatusOr<TemporaryDirectory> directory = TemporaryDirectory::Create("/tmp", "hone");
  ASSERT_THAT(directory, IsOk());
  const std::string path = JoinPath(directory->path(), "s");
  const pid_t daemon = fork();
  if (daemon == 0) {
    const ScriptedServer server(Serving("reply"), path);
    while (true) pause();
  }
  const auto channel = ChannelTo("unix:" + path);
  EXPECT_THAT(channel->WaitUntilConnected(kLong), IsOk());
  kill(daemon, SIGSTOP);
  int status = 0;
  EXPECT_EQ(waitpid(daemon, &status, WUNTRACED), daemon);
  const absl::Time began = absl::Now();
  EXPECT_THAT(channel->Call(kMethod, "", Within(absl::Milliseconds(100), /*retry=*/true)),
              StatusIs(kDeadlineExceeded, HasSubstr(kMethod)));
  // A new client of it, too: the kernel accepts connections for a stopped process.
  EXPECT_THAT(ChannelTo("unix:" + path)->Call(kMethod, "", Within(absl::Milliseconds(100))),
              StatusIs(kDeadlineExceeded, HasSubstr("does not answer")));
  EXPECT_LT(absl::Now() - began, absl::Seconds(5));
  kill(daemon, SIGCONT);
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("reply"));
  kill(daemon, SIGKILL);
  waitpid(daemon, &status, 0);
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("nobody listens there any more")));
}

}  // namespace
}  // namespace hone
