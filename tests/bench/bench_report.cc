#include "tests/bench/bench_report.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <thread>

namespace hone {
namespace {

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

}  // namespace

void PrintMachine() {
  utsname system{};
  uname(&system);
#ifdef NDEBUG
  const char* build = "optimised";
#else
  const char* build = "debug";
#endif
  std::printf("machine: %s, %u cores, %s %s, %s build\n", CpuName().c_str(),
              std::thread::hardware_concurrency(), system.sysname, system.release, build);
}

void PrintFigure(const Figure& figure) {
  std::printf("{\"figure\": \"%s\", \"value\": %.3f, \"unit\": \"%s\"", figure.figure.c_str(),
              figure.value, figure.unit.c_str());
  if (!figure.peer.empty()) {
    std::printf(", \"peer\": \"%s\", \"peer_value\": %.3f, \"ratio\": %.3f", figure.peer.c_str(),
                figure.peer_value, figure.value / figure.peer_value);
  }
  std::printf("}\n");
}

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (at - std::floor(at));
}

}  // namespace hone
