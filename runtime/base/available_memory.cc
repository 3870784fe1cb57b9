#include "runtime/base/available_memory.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/files.h"

namespace hone {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

int64_t MemAvailable() {
  const absl::StatusOr<std::string> text = ReadKernelFile("/proc/meminfo");
  if (!text.ok()) return kNoLimit;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (!absl::ConsumePrefix(&line, "MemAvailable:")) continue;
    int64_t kib = 0;
    const absl::string_view number = absl::StripSuffix(absl::StripAsciiWhitespace(line), " kB");
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(number), &kib)) return kib * 1024;
  }
  return kNoLimit;
}

int64_t NumberIn(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadKernelFile(path);
  int64_t value = 0;
  if (!text.ok() || !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &value)) return -1;
  return value;
}

int64_t CgroupRemaining() {
  const int64_t limit = NumberIn("/sys/fs/cgroup/memory.max");
  const int64_t used = NumberIn("/sys/fs/cgroup/memory.current");
  return limit < 0 || used < 0 ? kNoLimit : std::max<int64_t>(limit - used, 0);
}

}  // namespace

int64_t AvailableMemoryBytes() { return std::min(MemAvailable(), CgroupRemaining()); }

}  // namespace hone
