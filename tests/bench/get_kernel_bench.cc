// A GetKernel hit over a unix socket against a bare gRPC echo of the same payload: latency by size,
// calls a second on 64 channels, and latency while the daemon works for others.
//
// Both servers are processes of their own: honed with kernels in memory, and this program again as
// an echo that answers every call with as many bytes. The client is the same for both, rounds are
// interleaved.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "tests/bench/bench_report.h"
#include "tests/bench/echo_server.h"
#include "tests/bench/raw_calls.h"
#include "tests/bench/sized_kernels.h"

namespace hone {
namespace {

constexpr int kRounds = 200;
// Few, so that what else the machine does meets both alike.
constexpr int kCallsPerRound = 25;
constexpr int kWarmUpCalls = 300;  // channels, threads and caches settle within far fewer
constexpr size_t kChannels = 64;
constexpr int kThroughputRounds = 9;
constexpr int kThroughputCalls = 4000;
constexpr int kBusyRounds = 4;
constexpr int kBusyCallsPerRound = 500;
constexpr size_t kColdInFlight = 16;

struct Size {
  const char* name;
  int64_t table_bytes;
  int64_t inline_bytes_max;
};

template <class T>
T OrExit(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::exit(1);
}

// One hit and its echo.
struct Pair {
  Pair(DaemonProcess& daemon, const std::string& directory, std::string hit_request)
      : request(std::move(hit_request)), hit({daemon.Channel()}), reply_bytes(FirstReply()) {
    echo_server.emplace(OrExit(
        EchoServer::Start(JoinPath(directory, absl::StrCat("e", reply_bytes)), reply_bytes)));
    echo.emplace(std::vector<std::shared_ptr<grpc::Channel>>{echo_server->Channel()});
    TimeCalls(hit, kGetKernelMethod, request, kWarmUpCalls);
    TimeCalls(*echo, kEchoMethod, request, kWarmUpCalls);
  }
  size_t FirstReply() { return hit.Call(kGetKernelMethod, request).bytes.Length(); }

  const std::string request;
  RawCalls hit;
  const size_t reply_bytes;
  std::optional<EchoServer> echo_server;
  std::optional<RawCalls> echo;
};

void PrintPercentiles(const std::string& figure, const std::vector<double>& us,
                      const std::string& peer, const std::vector<double>& peer_us) {
  for (const auto& [suffix, share] : {std::pair("p50", 0.5), std::pair("p99", 0.99)}) {
    PrintFigure({.figure = absl::StrCat(figure, "_", suffix),
                 .value = Percentile(us, share),
                 .unit = "us",
                 .peer = peer,
                 .peer_value = Percentile(peer_us, share)});
  }
}

void Append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void Latency(Pair& pair, const std::string& name) {
  std::vector<double> hit_us, echo_us;
  for (int round = 0; round < kRounds; ++round) {
    Append(hit_us, TimeCalls(pair.hit, kGetKernelMethod, pair.request, kCallsPerRound));
    Append(echo_us, TimeCalls(*pair.echo, kEchoMethod, pair.request, kCallsPerRound));
  }
  std::printf("%s: %zu bytes out, %zu bytes back\n", name.c_str(), pair.request.size(),
              pair.reply_bytes);
  PrintPercentiles("get_kernel_hit_" + name, hit_us, "grpc_echo", echo_us);
}

void Throughput(DaemonProcess& daemon, Pair& pair, const std::string& name) {
  std::vector<std::shared_ptr<grpc::Channel>> hit_channels, echo_channels;
  for (size_t i = 0; i < kChannels; ++i) {
    hit_channels.push_back(daemon.Channel());
    echo_channels.push_back(pair.echo_server->Channel());
  }
  RawCalls hit(std::move(hit_channels)), echo(std::move(echo_channels));
  std::vector<double> hits, echoes;
  for (int round = 0; round <= kThroughputRounds; ++round) {
    const double of_hits =
        CallsPerSecond(hit, kChannels, kGetKernelMethod, pair.request, kThroughputCalls);
    const double of_echoes =
        CallsPerSecond(echo, kChannels, kEchoMethod, pair.request, kThroughputCalls);
    if (round == 0) continue;  // connects
    hits.push_back(of_hits);
    echoes.push_back(of_echoes);
  }
  PrintFigure({.figure = absl::StrCat("get_kernel_hits_on_64_channels_", name),
               .value = Percentile(hits, 0.5),
               .unit = "calls/s",
               .peer = "grpc_echo",
               .peer_value = Percentile(echoes, 0.5)});
}

// Tunes over and over, and has builds for later calls queued, as a warm-up does.
void TuneAndWarm(SizedKernels& kernels, const std::atomic<bool>& stop) {
  const auto client = kernels.daemon().Client();
  RawCalls warm({kernels.daemon().Channel()});
  v1::TuneRequest request;
  google::protobuf::TextFormat::ParseFromString(
      "template { name: 'sized' } params { key: 'bytes' value { integer: 1000 } } "
      "params { key: 'key' value { integer: 0 } } params { key: 'n' value { integer: 1000000 } } "
      "force: true",
      &request);
  static int64_t key = 10'000'000;
  while (!stop) {
    for (int i = 0; i < 8; ++i) {
      warm.Start(0, kGetKernelMethod, kernels.Request(16'384, ++key, 0, v1::NO_WAIT));
      warm.Next();
    }
    grpc::ClientContext context;
    const auto reader = client->Tune(&context, request);
    v1::TuneEvent event;
    while (reader->Read(&event)) {
    }
    reader->Finish();
  }
}

// Asks for kernels that nobody has asked for, many at once.
void AskForColdOnes(SizedKernels& kernels, const std::atomic<bool>& stop) {
  RawCalls calls({kernels.daemon().Channel()});
  static int64_t key = 1'000'000;
  const auto start = [&](size_t index) {
    calls.Start(index, kGetKernelMethod, kernels.Request(16'384, ++key));
  };
  for (size_t i = 0; i < kColdInFlight; ++i) start(i);
  while (calls.in_flight() > 0) {
    const auto reply = calls.Next();
    if (!stop) start(reply->index);
  }
}

using Work = void (*)(SizedKernels&, const std::atomic<bool>&);

void Beside(SizedKernels& kernels, Pair& pair, const std::string& name, Work work) {
  std::vector<double> quiet_us, busy_us, echo_us;
  for (int round = 0; round < kBusyRounds; ++round) {
    Append(quiet_us, TimeCalls(pair.hit, kGetKernelMethod, pair.request, kBusyCallsPerRound));
    std::atomic<bool> stop{false};
    std::thread worker([&] { work(kernels, stop); });
    for (int i = 0; i < 5; ++i) {
      Append(busy_us, TimeCalls(pair.hit, kGetKernelMethod, pair.request, kBusyCallsPerRound / 5));
      Append(echo_us, TimeCalls(*pair.echo, kEchoMethod, pair.request, kBusyCallsPerRound / 5));
    }
    stop = true;
    worker.join();
  }
  PrintPercentiles(absl::StrCat("get_kernel_hit_beside_", name), busy_us, "quiet", quiet_us);
  PrintPercentiles(absl::StrCat("get_kernel_hit_beside_", name), busy_us, "grpc_echo_beside_it",
                   echo_us);
}

int Main() {
  PrintMachine();
  const auto directory = OrExit(TemporaryDirectory::Create("/tmp", "hone"));
  SizedKernels kernels = OrExit(SizedKernels::Start(directory.path()));
  std::printf("binaries for %s\n", kernels.architecture().c_str());
  for (const Size& size : {Size{"1KB", 1000, -1}, Size{"16KiB", 16 << 10, 0},
                           Size{"64KiB", 64 << 10, 0}, Size{"240KiB", 240 << 10, 0}}) {
    const int64_t hits_before = kernels.daemon().Status().counters().at("memory_hits");
    Pair pair(kernels.daemon(), directory.path(),
              kernels.Request(size.table_bytes, 0, size.inline_bytes_max));
    Latency(pair, size.name);
    if (size.table_bytes <= 16 << 10) Throughput(kernels.daemon(), pair, size.name);
    const int64_t hits = kernels.daemon().Status().counters().at("memory_hits") - hits_before;
    std::printf("%lld calls were memory hits\n", static_cast<long long>(hits));
    if (size.table_bytes != 16 << 10) continue;
    Beside(kernels, pair, "tune_and_warm", &TuneAndWarm);
    Beside(kernels, pair, "cold_compiles", &AskForColdOnes);
  }
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  if (const auto code = hone::ServeEchoIfAsked(argc, argv)) return *code;
  return hone::Main();
}
