#include "runtime/base/processor_wait.h"

#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/files.h"

namespace hone {

absl::Duration ProcessorWait(pid_t process_group) {
  absl::Duration total;
  const auto entries = ListDirectory("/proc");
  if (!entries.ok()) return total;
  for (const std::string& entry : *entries) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry, &pid) || ::getpgid(pid) != process_group) continue;
    // Nanoseconds on a processor, nanoseconds waiting for one, number of turns.
    const auto text = ReadKernelFile(absl::StrCat("/proc/", pid, "/schedstat"));
    if (!text.ok()) continue;  // ended meanwhile
    const std::vector<std::string> fields = absl::StrSplit(*text, ' ');
    int64_t waited_ns = 0;
    if (fields.size() >= 2 && absl::SimpleAtoi(fields[1], &waited_ns)) {
      total += absl::Nanoseconds(waited_ns);
    }
  }
  return total;
}

}  // namespace hone
