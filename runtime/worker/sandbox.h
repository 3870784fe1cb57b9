// Confines this process before it runs foreign code: resource limits and Landlock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hone {

struct SandboxOptions {
  // Files and trees that may be read; also executed; also written, with files made and removed.
  // Paths that are not there are skipped.
  std::vector<std::string> read;
  std::vector<std::string> execute;
  std::vector<std::string> write;

  // 0: as inherited. Address space is not limited under sanitizers, which reserve terabytes.
  int64_t memory_bytes_max = 0;
  int64_t file_bytes_max = 0;  // of each file written
};

// Call while the process has one thread: Landlock binds the calling thread and what it starts
// later. Always: no core files, no new privileges. Where the kernel has Landlock: no file outside
// the lists, no TCP, no signals or abstract sockets to processes outside, as far as its version
// goes. Returns "landlock abi 7", or "none" where the kernel has no Landlock or has it off; errors
// are of the system.
absl::StatusOr<std::string> EnterSandbox(const SandboxOptions& options);

// A soft limit of processor time: the process is killed when it has used `cpu_ms` more than now.
// Each call replaces the limit; 0 lifts it.
absl::Status LimitProcessorTime(int64_t cpu_ms);

// Starts a thread that ends the process, and the process group when the process leads one, when the
// peer of `socket` hangs up, also in the middle of a job, so that no worker outlives its daemon.
// `socket` must stay open.
void ExitWhenPeerCloses(int socket);

}  // namespace hone
