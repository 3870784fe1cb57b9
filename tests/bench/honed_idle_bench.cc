// How fast an idle honed is up, and what it costs to keep it running.
//
// Each round starts a daemon on an empty cache directory, waits for its first answer, then for
// devices and compilers, and reads its resident memory, workers not counted.
#include <cstdio>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/bench/bench_report.h"
#include "tests/scenarios/daemon_process.h"

namespace hone {
namespace {

constexpr int kRounds = 5;

double ResidentMegabytes(pid_t pid) {
  const std::string status =
      ReadKernelFile("/proc/" + std::to_string(pid) + "/status").value_or("");
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    double kilobytes = 0;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() == 3 && words[0] == "VmRSS:" && absl::SimpleAtod(words[1], &kilobytes)) {
      return kilobytes * 1024 / 1e6;
    }
  }
  return 0;
}

int Main() {
  PrintMachine();
  std::vector<double> ready_ms, resident;
  for (int round = 0; round < kRounds; ++round) {
    const auto directory = TemporaryDirectory::Create("/tmp", "hone");
    if (!directory.ok()) return 1;
    const auto daemon = DaemonProcess::Start(directory->path());
    if (!daemon.ok()) {
      std::fprintf(stderr, "%s\n", daemon.status().ToString().c_str());
      return 1;
    }
    ready_ms.push_back(absl::ToDoubleMilliseconds((*daemon)->ready_after()));
    (*daemon)->WaitForEngine();
    resident.push_back(ResidentMegabytes((*daemon)->pid()));
  }
  PrintFigure({.figure = "honed_ready_p50", .value = Percentile(ready_ms, 0.5), .unit = "ms"});
  PrintFigure({.figure = "honed_idle_rss_p50", .value = Percentile(resident, 0.5), .unit = "MB"});
  return 0;
}

}  // namespace
}  // namespace hone

int main() { return hone::Main(); }
