#include "runtime/cpu/cpu_facts.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/base/files.h"
#include "runtime/launch/cpu_block.h"
#include "runtime/launch/cpu_host.h"

namespace hone {
namespace {

// The value of the first line "key : value" in /proc/cpuinfo, or "".
std::string CpuinfoValue(absl::string_view key) {
  const absl::StatusOr<std::string> text = ReadKernelFile("/proc/cpuinfo");
  if (!text.ok()) return "";
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(parts.first) == key) {
      return std::string(absl::StripAsciiWhitespace(parts.second));
    }
  }
  return "";
}

std::string FirstWord(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadKernelFile(path);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

// "512K", "32M".
int64_t CacheSize(absl::string_view text) {
  int64_t scale = 1;
  if (absl::ConsumeSuffix(&text, "K")) scale = 1024;
  if (absl::ConsumeSuffix(&text, "M")) scale = 1024 * 1024;
  int64_t value = 0;
  return absl::SimpleAtoi(text, &value) ? value * scale : 0;
}

// Of the first CPU's unified caches: level 2 if `level` is 2, or the largest for 0.
int64_t CacheBytes(int level) {
  int64_t bytes = 0;
  for (int index = 0; index < 8; ++index) {
    const std::string base = absl::StrCat("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    const std::string size = FirstWord(base + "size");
    if (size.empty()) break;
    if (level != 0 && FirstWord(base + "level") != absl::StrCat(level)) continue;
    bytes = std::max(bytes, CacheSize(size));
  }
  return bytes;
}

// The reported maximum; where there is none (virtual machines), the clock that cpuinfo states, in
// steps of 100 MHz, because that one wanders.
int64_t MaxClockKhz() {
  int64_t khz = 0;
  if (absl::SimpleAtoi(FirstWord("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"), &khz)) {
    return khz;
  }
  double mhz = 0;
  if (!absl::SimpleAtod(CpuinfoValue("cpu MHz"), &mhz)) return 0;
  return static_cast<int64_t>(mhz / 100 + 0.5) * 100 * 1000;
}

struct ProcessorTime {
  int64_t busy = 0;
  int64_t all = 0;
};

// Ticks of all processors since the start; zeros if not told.
ProcessorTime ReadProcessorTime() {
  ProcessorTime time;
  const absl::StatusOr<std::string> text = ReadKernelFile("/proc/stat");
  if (!text.ok()) return time;
  // "cpu  user nice system idle iowait irq softirq steal ...", where nice work gives way to ours.
  const std::vector<std::string> fields =
      absl::StrSplit(text->substr(0, text->find('\n')), ' ', absl::SkipEmpty());
  constexpr size_t kNice = 2, kIdle = 4, kWaiting = 5, kSteal = 8;
  for (size_t i = 1; i < fields.size() && i <= kSteal; ++i) {
    int64_t ticks = 0;
    if (!absl::SimpleAtoi(fields[i], &ticks)) break;
    time.all += ticks;
    if (i != kNice && i != kIdle && i != kWaiting) time.busy += ticks;
  }
  return time;
}

}  // namespace

DeviceActivity CpuActivity() {
  constexpr absl::Duration kWatched = absl::Milliseconds(100);
  const ProcessorTime before = ReadProcessorTime();
  absl::SleepFor(kWatched);
  const ProcessorTime after = ReadProcessorTime();
  DeviceActivity activity;
  if (after.all > before.all) {
    activity.utilization_percent =
        static_cast<int>(100 * (after.busy - before.busy) / (after.all - before.all));
  }
  return activity;
}

int64_t LastLevelCacheBytes() { return CacheBytes(0); }

int CurrentClockMhz() {
  int64_t khz = 0;
  if (absl::SimpleAtoi(FirstWord("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"), &khz)) {
    return static_cast<int>(khz / 1000);
  }
  double mhz = 0;
  return absl::SimpleAtod(CpuinfoValue("cpu MHz"), &mhz) ? static_cast<int>(mhz) : 0;
}

DeviceInfo ReadCpuInfo() {
  DeviceInfo info;
  info.index = -1;
  info.name = CpuinfoValue("model name");
  if (info.name.empty()) info.name = "CPU";
  info.architecture = "cpu";
  info.driver = "cpu";

  DeviceFingerprint& fingerprint = info.fingerprint;
  fingerprint.kind = "cpu";
#if defined(__x86_64__)
  fingerprint.architecture = HostIsaLevel() >= 3 ? "x86-64-v3" : "x86-64";
#else
  fingerprint.architecture = "generic";
#endif
  fingerprint.sm_count = UsableHardwareThreads();
  fingerprint.clock_khz = MaxClockKhz();
  fingerprint.l2_bytes = CacheBytes(2);
  // The last level cache tells processors of one architecture apart.
  fingerprint.slice = absl::StrCat("llc=", LastLevelCacheBytes());
  struct sysinfo memory = {};
  if (sysinfo(&memory) == 0) {
    // In GiB: the kernel's own share changes with its version.
    constexpr int64_t kGib = int64_t{1} << 30;
    const auto bytes = static_cast<int64_t>(memory.totalram) * memory.mem_unit;
    fingerprint.memory_bytes = (bytes + kGib / 2) / kGib * kGib;
  }

  info.limits.max_threads_per_block = kCpuThreadsPerBlockMax;
  info.limits.shared_bytes_per_block_max = kCpuSharedBytesPerBlockMax;
  info.limits.shared_bytes_per_sm = kCpuSharedBytesPerBlockMax;
  info.limits.max_cluster_size = 1;
  info.limits.warp_size = 32;
  return info;
}

}  // namespace hone
