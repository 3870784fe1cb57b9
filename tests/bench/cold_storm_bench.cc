// Many cold kernels at once: `cold_storm_bench [keys] [clients]`, 1000 of 64 unless given.
//
// Every client asks for all of its keys at once. Each call must end with a kernel, or with
// RESOURCE_EXHAUSTED and a hint when to come back, which is then followed. Meanwhile a warm kernel
// is asked for every few milliseconds, and the memory of the daemon and its workers is watched.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/bench/bench_report.h"
#include "tests/bench/raw_calls.h"
#include "tests/bench/sized_kernels.h"

namespace hone {
namespace {

constexpr int64_t kTableBytes = 16 << 10;
constexpr absl::Duration kLimit = absl::Minutes(20);  // beyond it, it hangs
constexpr absl::Duration kHitPause = absl::Milliseconds(5);
constexpr int kQuietHits = 1000;

template <class T>
T OrExit(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::exit(1);
}

int64_t KilobytesIn(const std::string& status, const std::string& field) {
  int64_t kilobytes = 0;
  const std::vector<std::string> lines = absl::StrSplit(status, '\n');
  for (const std::string& line : lines) {
    if (line.rfind(field, 0) != 0) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() > 1 && absl::SimpleAtoi(words[1], &kilobytes)) return kilobytes;
  }
  return 0;
}

// Peaks of resident memory, in MB: of the daemon, and of all its children together at one moment.
class MemoryWatch {
 public:
  explicit MemoryWatch(pid_t daemon) : daemon_(daemon), thread_([this] { Loop(); }) {}
  ~MemoryWatch() { Stop(); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  double daemon_mb() const { return static_cast<double>(daemon_kb_) / 1e3; }
  double workers_mb() const { return static_cast<double>(workers_kb_) / 1e3; }

 private:
  void Loop() {
    while (!stop_) {
      int64_t workers = 0;
      for (const std::string& name : ListDirectory("/proc").value_or(std::vector<std::string>())) {
        int pid = 0;
        if (!absl::SimpleAtoi(name, &pid)) continue;
        const std::string status =
            ReadKernelFile(absl::StrCat("/proc/", name, "/status")).value_or("");
        if (pid == daemon_) daemon_kb_ = std::max(daemon_kb_.load(), KilobytesIn(status, "VmHWM:"));
        if (KilobytesIn(status, "PPid:") == daemon_) workers += KilobytesIn(status, "VmRSS:");
      }
      workers_kb_ = std::max(workers_kb_.load(), workers);
      absl::SleepFor(absl::Milliseconds(200));  // between looks at /proc
    }
  }

  const pid_t daemon_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> daemon_kb_{0}, workers_kb_{0};
  std::thread thread_;
};

// As a client library asks: not back to back.
std::vector<double> PacedHits(RawCalls& calls, const std::string& request,
                              const std::function<bool(size_t)>& more) {
  std::vector<double> us;
  while (more(us.size())) {
    us.push_back(calls.Call(kGetKernelMethod, request).us);
    absl::SleepFor(kHitPause);
  }
  return us;
}

struct Storm {
  int kernels = 0;
  int refusals = 0;  // with a hint
  int lost = 0;
  double seconds = 0;
};

// Zero: not an error that may be tried again.
int64_t RetryAfterMs(const grpc::Status& status) {
  v1::ErrorDetail detail;
  detail.ParseFromString(status.error_details());
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ? detail.retry_after_ms() : 0;
}

Storm RunStorm(SizedKernels& kernels, size_t keys, size_t clients) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (size_t i = 0; i < clients; ++i) channels.push_back(kernels.daemon().Channel());
  RawCalls calls(std::move(channels));
  const auto start = [&](size_t key) {
    calls.Start(key, kGetKernelMethod,
                kernels.Request(kTableBytes, static_cast<int64_t>(key) + 1, /*inline: never*/ -1));
  };
  Storm storm;
  std::multimap<absl::Time, size_t> later;
  const absl::Time began = absl::Now();
  for (size_t key = 0; key < keys; ++key) start(key);
  while ((calls.in_flight() > 0 || !later.empty()) && absl::Now() - began < kLimit) {
    while (!later.empty() && later.begin()->first <= absl::Now()) {
      start(later.begin()->second);
      later.erase(later.begin());
    }
    const absl::Time next = later.empty() ? began + kLimit : later.begin()->first;
    const auto reply = calls.Next(next);
    if (!reply) continue;
    if (reply->status.ok()) {
      ++storm.kernels;
    } else if (const int64_t after_ms = RetryAfterMs(reply->status); after_ms > 0) {
      ++storm.refusals;
      later.emplace(absl::Now() + absl::Milliseconds(after_ms), reply->index);
    } else {
      ++storm.lost;
      std::fprintf(stderr, "lost: %s\n", reply->status.error_message().c_str());
    }
  }
  storm.lost += static_cast<int>(calls.in_flight() + later.size());
  storm.seconds = absl::ToDoubleSeconds(absl::Now() - began);
  return storm;
}

int Main(size_t keys, size_t clients) {
  PrintMachine();
  const auto directory = OrExit(TemporaryDirectory::Create("/tmp", "hone"));
  SizedKernels kernels = OrExit(SizedKernels::Start(directory.path()));
  RawCalls hits({kernels.daemon().Channel()});
  const std::string warm = kernels.Request(kTableBytes, 0);
  hits.Call(kGetKernelMethod, warm);
  const auto quiet = PacedHits(hits, warm, [](size_t n) { return n < kQuietHits; });
  const int64_t compiles = kernels.daemon().Status().counters().at("compiles");

  MemoryWatch memory(kernels.daemon().pid());
  std::atomic<bool> over{false};
  std::vector<double> busy;
  std::thread hitting(
      [&] { busy = PacedHits(hits, warm, [&](size_t n) { return !over || n == 0; }); });
  const Storm storm = RunStorm(kernels, keys, clients);
  over = true;
  hitting.join();
  memory.Stop();
  const int64_t compiled = kernels.daemon().Status().counters().at("compiles") - compiles;
  std::printf(
      "%zu keys for %s of %zu clients: %d kernels, %d refusals with a hint, %d lost; "
      "%lld compiles\n",
      keys, kernels.architecture().c_str(), clients, storm.kernels, storm.refusals, storm.lost,
      static_cast<long long>(compiled));
  PrintFigure({.figure = "cold_storm_lost_calls",
               .value = static_cast<double>(storm.lost),
               .unit = "calls"});
  PrintFigure({.figure = "cold_storm_refusals",
               .value = static_cast<double>(storm.refusals),
               .unit = "calls"});
  PrintFigure({.figure = "cold_storm_seconds", .value = storm.seconds, .unit = "s"});
  PrintFigure({.figure = "cold_storm_daemon_peak_rss", .value = memory.daemon_mb(), .unit = "MB"});
  PrintFigure(
      {.figure = "cold_storm_workers_peak_rss", .value = memory.workers_mb(), .unit = "MB"});
  for (const auto& [name, share] : {std::pair("p50", 0.5), std::pair("p99", 0.99)}) {
    PrintFigure({.figure = absl::StrCat("hit_during_cold_storm_", name),
                 .value = Percentile(busy, share),
                 .unit = "us",
                 .peer = "quiet",
                 .peer_value = Percentile(quiet, share)});
  }
  return storm.lost == 0 && storm.kernels == static_cast<int>(keys) ? 0 : 1;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  size_t keys = 1000, clients = 64;
  const bool read = (argc < 2 || absl::SimpleAtoi(argv[1], &keys)) &&
                    (argc < 3 || absl::SimpleAtoi(argv[2], &clients)) && argc <= 3;
  if (!read || keys == 0 || clients == 0) {
    std::fprintf(stderr, "usage: cold_storm_bench [keys] [clients]\n");
    return 64;
  }
  return hone::Main(keys, clients);
}
