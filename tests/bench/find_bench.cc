// What hone_find costs on the serving path. usage: find_bench [daemon endpoint]
//
// A kernel of the daemon's first device is prepared once and found from 1 and 8 threads, while
// another thread refreshes, which is what could make them wait.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "client/c/hone.h"
#include "tests/bench/bench_report.h"
#include "tests/testing/allocation_counter.h"

namespace hone {
namespace {

constexpr int kRounds = 41;
constexpr int kFinds = 1'000'000;
constexpr int kThreads = 8;

void Check(hone_error* error) {
  if (error == nullptr) return;
  std::fprintf(stderr, "find_bench: %s\n", hone_error_message(error));
  std::exit(1);
}

struct Cost {
  double ns = 0;
  int64_t allocations = 0;
};

Cost FindMany(const hone_request* request) {
  const int64_t allocations = AllocationsOfThisThread();
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kFinds; ++i) {
    if (hone_find(request) == nullptr) std::exit(1);
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
  return {.ns = took.count() / kFinds, .allocations = AllocationsOfThisThread() - allocations};
}

// Of `threads` at once: the slowest thread's time of one find.
Cost FindFromThreads(const hone_request* request, int threads) {
  std::vector<Cost> costs(static_cast<size_t>(threads));
  std::vector<std::thread> finders;
  for (Cost& cost : costs) finders.emplace_back([&] { cost = FindMany(request); });
  for (std::thread& finder : finders) finder.join();
  Cost worst;
  for (const Cost& cost : costs) {
    worst.ns = std::max(worst.ns, cost.ns);
    worst.allocations += cost.allocations;
  }
  return worst;
}

void Measure(const char* endpoint) {
  hone_client_options options = {};
  options.struct_bytes = sizeof(options);
  options.endpoint = endpoint;
  options.enable_cpu_device = 1;
  hone_client* client = nullptr;
  Check(hone_client_open(&options, &client));
  hone_error_free(hone_use_device(0));  // without a GPU: the daemon's first device
  const bool on_gpu = hone_current_device() >= 0;
  const hone_param params[] = {hone_text("T", "F32"), hone_size("n", 4096)};
  hone_request_options asked = HONE_REQUEST_OPTIONS("copy_1d", params, 2);
  if (!on_gpu) asked.architecture = "cpu";
  hone_request* request = nullptr;
  Check(hone_request_create(client, &asked, &request));
  Check(hone_prepare(request, nullptr));

  std::atomic<bool> done{false};
  std::thread refresher([&] {
    hone_error_free(hone_use_device(0));
    while (!done) Check(hone_refresh(client, hone_latest_generation(client), nullptr));
  });
  for (const int threads : {1, kThreads}) {
    std::vector<double> ns;
    int64_t allocations = 0;
    for (int round = 0; round < kRounds; ++round) {
      const Cost cost = FindFromThreads(request, threads);
      ns.push_back(cost.ns);
      allocations += cost.allocations;
    }
    const char* figure = threads == 1 ? "find" : "find_8_threads";
    PrintFigure({.figure = figure, .value = Percentile(ns, 0.5), .unit = "ns"});
    std::printf("%s: %lld allocations\n", figure, static_cast<long long>(allocations));
  }
  done = true;
  refresher.join();
  hone_client_close(client);
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  hone::PrintMachine();
  hone::Measure(argc > 1 ? argv[1] : nullptr);
}
