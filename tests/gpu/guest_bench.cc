// What a serving loop on the GPU feels of a daemon that answers misses: a kernel of about 20 us is
// launched over and over while other threads ask for kernels that nobody has compiled or tuned.
// Quiet and disturbed phases take turns in one run.
//
// usage: guest_bench [daemon endpoint]      the daemon must be fresh: every request has to miss
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/hone/client.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/bench_report.h"
#include "tests/gpu/bench_gpu.h"

namespace hone {
namespace {

constexpr int kRounds = 5;
constexpr int kMissesPerRound = 200;
constexpr int kAskers = 8;
constexpr int kBatch = 32;
constexpr absl::Duration kQuiet = absl::Seconds(3);
// Read and written once in about 20 us by an H200, from its L2.
constexpr int64_t kElements = int64_t{8} << 20;

struct Loop {
  std::vector<double> kernel_us;  // on the device, of kernels that follow each other
  std::vector<double> call_us;    // of one launch to its completion, on the host's clock
  int64_t free_bytes_min = INT64_MAX;
};

class Guest {
 public:
  static absl::StatusOr<Guest> Make(const Client& client) {
    HONE_ASSIGN_OR_RETURN(BenchGpu gpu, BenchGpu::Open());
    HONE_ASSIGN_OR_RETURN(
        Kernel kernel, client.GetKernel({.template_name = "copy_1d",
                                         .params = {{"T", std::string("F32")}, {"n", kElements}}}));
    LaunchArguments arguments;
    arguments.sizes = {{"n", kElements}};
    for (const char* name : {"dst", "src"}) {
      HONE_ASSIGN_OR_RETURN(const CUdeviceptr address, gpu.Allocate(kElements * 4));
      arguments.buffers[name] = {.address = address, .shape = {}, .strides = {}};
    }
    return Guest(std::move(gpu), std::move(kernel), std::move(arguments));
  }

  absl::Status Run(const std::atomic<bool>& stop, Loop& loop) {
    while (!stop) {
      const auto launch = [&] { return kernel_.Launch(arguments_, nullptr); };
      HONE_ASSIGN_OR_RETURN(const std::vector<double> times_us, gpu_.TimesUs(kBatch, launch));
      loop.kernel_us.insert(loop.kernel_us.end(), times_us.begin(), times_us.end());
      for (int i = 0; i < kBatch; ++i) {
        const absl::Time begin = absl::Now();
        HONE_RETURN_IF_ERROR(gpu_.TimeUs(launch).status());
        loop.call_us.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
      }
      if (loop.kernel_us.size() % (64 * kBatch) == 0) {
        HONE_ASSIGN_OR_RETURN(const int64_t free_bytes, gpu_.FreeBytes());
        loop.free_bytes_min = std::min(loop.free_bytes_min, free_bytes);
      }
    }
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> FreeBytes() const { return gpu_.FreeBytes(); }

 private:
  Guest(BenchGpu gpu, Kernel kernel, LaunchArguments arguments)
      : gpu_(std::move(gpu)), kernel_(std::move(kernel)), arguments_(std::move(arguments)) {}

  BenchGpu gpu_;
  Kernel kernel_;
  LaunchArguments arguments_;
};

// Rows of a length that no earlier request had.
void AskForMisses(const Client& client, int first, std::atomic<int>& next,
                  std::atomic<int>& failed) {
  while (true) {
    const int i = next++;
    if (i >= kMissesPerRound) return;
    const auto kernel = client.GetKernel({.template_name = "rmsnorm",
                                          .params = {{"T", std::string("F32")},
                                                     {"rows", int64_t{64}},
                                                     {"cols", int64_t{1000 + first + i}}}});
    if (!kernel.ok() && failed++ == 0) {
      std::fprintf(stderr, "a miss failed: %s\n", kernel.status().ToString().c_str());
    }
  }
}

absl::Status Phase(Guest& guest, Loop& loop, const std::function<void()>& meanwhile) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    meanwhile();
    stop = true;
  });
  const absl::Status status = guest.Run(stop, loop);
  stop = true;
  other.join();
  return status;
}

absl::Status Run(const std::string& endpoint) {
  HONE_ASSIGN_OR_RETURN(const Client client, Client::Connect({.endpoint = endpoint}));
  HONE_ASSIGN_OR_RETURN(Guest guest, Guest::Make(client));
  Loop warm_up, quiet, disturbed;
  HONE_RETURN_IF_ERROR(Phase(guest, warm_up, [] { absl::SleepFor(absl::Seconds(1)); }));
  HONE_ASSIGN_OR_RETURN(const int64_t free_before, guest.FreeBytes());
  std::atomic<int> failed{0};
  for (int round = 0; round < kRounds; ++round) {
    HONE_RETURN_IF_ERROR(Phase(guest, quiet, [] { absl::SleepFor(kQuiet); }));
    HONE_RETURN_IF_ERROR(Phase(guest, disturbed, [&] {
      std::atomic<int> next{0};
      std::vector<std::thread> askers;
      for (int i = 0; i < kAskers; ++i) {
        askers.emplace_back([&] { AskForMisses(client, round * kMissesPerRound, next, failed); });
      }
      for (std::thread& asker : askers) asker.join();
    }));
  }
  if (failed > 0) return absl::InternalError(absl::StrCat(failed.load(), " misses failed"));
  std::printf("%zu quiet and %zu disturbed kernels, %d misses\n", quiet.kernel_us.size(),
              disturbed.kernel_us.size(), kRounds * kMissesPerRound);
  for (const double share : {0.5, 0.99}) {
    const std::string name = share == 0.5 ? "p50" : "p99";
    PrintFigure({.figure = "guest_kernel_" + name,
                 .value = Percentile(disturbed.kernel_us, share),
                 .unit = "us",
                 .peer = "without misses",
                 .peer_value = Percentile(quiet.kernel_us, share)});
    PrintFigure({.figure = "guest_call_" + name,
                 .value = Percentile(disturbed.call_us, share),
                 .unit = "us",
                 .peer = "without misses",
                 .peer_value = Percentile(quiet.call_us, share)});
  }
  PrintFigure({.figure = "guest_device_memory",
               .value = static_cast<double>(free_before - disturbed.free_bytes_min) / 1e6,
               .unit = "MB"});
  return absl::OkStatus();
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  hone::PrintMachine();
  const absl::Status status = hone::Run(argc > 1 ? argv[1] : "");
  if (!status.ok()) std::fprintf(stderr, "guest_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
