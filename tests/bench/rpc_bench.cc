// libhone's transport against gRPC's C++ client: both call the same bare gRPC echo, a process of
// its own, over a unix socket. Sequential calls at several sizes of the reply, calls a second of 64
// channels, and from nothing to the first reply. Sides are interleaved.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/rpc/rpc_channel.h"
#include "grpcpp/create_channel.h"
#include "runtime/base/files.h"
#include "tests/bench/bench_report.h"
#include "tests/bench/echo_server.h"
#include "tests/bench/raw_calls.h"

namespace hone {
namespace {

constexpr int kRounds = 30;
constexpr int kCallsPerRound = 200;
constexpr int kWarmUpCalls = 500;
constexpr int kChannels = 64;
constexpr absl::Duration kLoadTime = absl::Seconds(1);
// As long as an ordinary GetKernel request.
const std::string kRequest(60, 'q');

class RpcCaller {
 public:
  explicit RpcCaller(const std::string& endpoint)
      : channel_(*RpcChannel::Create({.endpoint = endpoint})) {}

  void Call() {
    const auto reply =
        channel_->Call(kEchoMethod, kRequest, {.deadline = absl::Now() + absl::Seconds(30)});
    if (reply.ok()) return;
    std::fprintf(stderr, "%s\n", reply.status().ToString().c_str());
    std::exit(1);
  }
  double TimeUs() {
    const int64_t began = absl::GetCurrentTimeNanos();
    Call();
    return static_cast<double>(absl::GetCurrentTimeNanos() - began) / 1e3;
  }

 private:
  std::unique_ptr<RpcChannel> channel_;
};

class Echo {
 public:
  Echo(const std::string& directory, size_t reply_bytes)
      : path_(JoinPath(directory, absl::StrCat(reply_bytes))) {
    auto server = EchoServer::Start(path_, reply_bytes);
    if (!server.ok()) std::exit(1);
    server_ = std::make_unique<EchoServer>(*std::move(server));
    const auto channel = RpcChannel::Create({.endpoint = endpoint()});
    if (!(*channel)->WaitUntilConnected(absl::Seconds(30)).ok()) std::exit(1);
  }

  std::string endpoint() const { return "unix:" + path_; }
  // gRPC's caller, with a connection of its own.
  std::unique_ptr<RawCalls> Grpc(int number) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt("hone.number", number);  // else equal channels share a connection
    return std::make_unique<RawCalls>(std::vector<std::shared_ptr<grpc::Channel>>{
        grpc::CreateCustomChannel(endpoint(), grpc::InsecureChannelCredentials(), arguments)});
  }

 private:
  const std::string path_;
  std::unique_ptr<EchoServer> server_;
};

void CompareLatency(const std::string& directory, size_t reply_bytes) {
  const Echo echo(directory, reply_bytes);
  RpcCaller ours(echo.endpoint());
  const auto theirs = echo.Grpc(0);
  for (int i = 0; i < kWarmUpCalls; ++i) {
    ours.Call();
    theirs->Call(kEchoMethod, kRequest);
  }
  std::vector<double> ours_us, theirs_us;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kCallsPerRound; ++i) ours_us.push_back(ours.TimeUs());
    for (int i = 0; i < kCallsPerRound; ++i)
      theirs_us.push_back(theirs->Call(kEchoMethod, kRequest).us);
  }
  for (const double share : {0.5, 0.99}) {
    PrintFigure({.figure = absl::StrCat("rpc_call_", reply_bytes, share == 0.5 ? "_p50" : "_p99"),
                 .value = Percentile(ours_us, share),
                 .unit = "us",
                 .peer = "grpc_client",
                 .peer_value = Percentile(theirs_us, share)});
  }
}

// Calls a second of so many threads; `make_caller(i)` gives each what it calls.
template <class MakeCaller>
double ThreadedCallsPerSecond(const MakeCaller& make_caller) {
  std::atomic<bool> stop{false};
  std::atomic<int64_t> calls{0};
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kChannels; ++i) {
    threads.emplace_back([&, i] {
      const std::function<void()> call = make_caller(i);
      call();
      ++ready;
      while (!stop) {
        call();
        ++calls;
      }
    });
  }
  while (ready < kChannels) std::this_thread::yield();
  const int64_t before = calls;
  const absl::Time began = absl::Now();
  absl::SleepFor(kLoadTime);
  const double rate =
      static_cast<double>(calls - before) / absl::ToDoubleSeconds(absl::Now() - began);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return rate;
}

void CompareThroughput(const std::string& directory) {
  const Echo echo(directory, 1000);
  std::vector<double> ours, theirs;
  for (int round = 0; round < 5; ++round) {
    ours.push_back(ThreadedCallsPerSecond([&](int) {
      return [caller = std::make_shared<RpcCaller>(echo.endpoint())] { caller->Call(); };
    }));
    theirs.push_back(ThreadedCallsPerSecond([&](int i) {
      return [caller = std::shared_ptr<RawCalls>(echo.Grpc(i))] {
        caller->Call(kEchoMethod, kRequest);
      };
    }));
  }
  PrintFigure({.figure = "rpc_calls_per_second_64_channels",
               .value = Percentile(ours, 0.5),
               .unit = "1/s",
               .peer = "grpc_client",
               .peer_value = Percentile(theirs, 0.5)});
}

// A channel's making and its first call. gRPC's own start is not in it: it has run before.
void CompareFirstCall(const std::string& directory) {
  const Echo echo(directory, 100);
  std::vector<double> ours, theirs;
  for (int round = 0; round < 100; ++round) {
    absl::Time began = absl::Now();
    RpcCaller(echo.endpoint()).Call();
    ours.push_back(absl::ToDoubleMicroseconds(absl::Now() - began));
    began = absl::Now();
    echo.Grpc(round)->Call(kEchoMethod, kRequest);
    theirs.push_back(absl::ToDoubleMicroseconds(absl::Now() - began));
  }
  PrintFigure({.figure = "rpc_first_call",
               .value = Percentile(ours, 0.5),
               .unit = "us",
               .peer = "grpc_client",
               .peer_value = Percentile(theirs, 0.5)});
}

int Main() {
  PrintMachine();
  const auto directory = TemporaryDirectory::Create("/tmp", "hone");
  if (!directory.ok()) return 1;
  for (const size_t reply_bytes : {size_t{100}, size_t{16} << 10, size_t{256} << 10}) {
    CompareLatency(directory->path(), reply_bytes);
  }
  CompareThroughput(directory->path());
  CompareFirstCall(directory->path());
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  if (const auto code = hone::ServeEchoIfAsked(argc, argv)) return *code;
  return hone::Main();
}
