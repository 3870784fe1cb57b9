#include "runtime/launch/cpu_host.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace hone {
namespace {

// 0: none, or not readable.
int QuotaThreads() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  const double threads = std::strtod(quota.c_str(), nullptr) / period;
  return std::max(1, static_cast<int>(threads + 0.999));
}

}  // namespace

int UsableHardwareThreads() {
  cpu_set_t set;
  int count = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
  if (const int quota = QuotaThreads(); quota > 0) count = std::min(count, quota);
  return std::clamp(count, 1, 64);
}

int HostIsaLevel() {
#if defined(__x86_64__)
  // What x86-64-v3 adds, as far as compilers emit it unasked.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")) {
    return 3;
  }
#endif
  return 0;
}

}  // namespace hone
