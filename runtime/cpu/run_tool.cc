#include "runtime/cpu/run_tool.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unique_fd.h"

namespace hone {
namespace {

// Reads until end of file or the deadline; false at the deadline. What does not fit is counted.
bool Drain(int fd, Deadline deadline, int64_t bytes_max, ToolRun& run) {
  char buffer[1 << 16];
  for (;;) {
    pollfd waiting{fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, deadline.remaining_poll_ms());
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && !deadline.passed()) continue;
    if (ready <= 0) return false;
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    const auto room = std::max<int64_t>(0, bytes_max - static_cast<int64_t>(run.log.size()));
    const int64_t kept = std::min<int64_t>(room, got);
    run.log.append(buffer, static_cast<size_t>(kept));
    run.log_dropped_bytes += got - kept;
  }
}

}  // namespace

absl::StatusOr<ToolRun> RunTool(const ToolOptions& options) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe for", options.command.front());
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);

  const std::string seconds = options.timeout == absl::InfiniteDuration()
                                  ? ""
                                  : absl::StrCat(absl::ToInt64Seconds(options.timeout) + 5);
  Subprocess::Options spawn;
  spawn.program = "/bin/sh";
  spawn.arguments = {
      "-c", "cd \"$1\" && { [ -z \"$2\" ] || ulimit -t \"$2\"; } && shift 2 && exec \"$@\"", "sh",
      options.directory, seconds};
  spawn.arguments.insert(spawn.arguments.end(), options.command.begin(), options.command.end());
  spawn.environment = options.environment;
  spawn.stderr_fd = theirs.get();
  // A worker leads a group, which dies with it; its tools must not be in another.
  spawn.own_process_group = ::getpgrp() != ::getpid();
  const Deadline deadline = Deadline::In(options.timeout);
  HONE_ASSIGN_OR_RETURN(Subprocess child, Subprocess::Spawn(spawn));
  theirs.Reset();

  ToolRun run;
  const bool ended = Drain(ours.get(), deadline, options.log_bytes_max, run);
  std::optional<ExitStatus> exit;
  if (ended) exit = child.Wait(deadline);
  run.timed_out = !exit.has_value();
  run.exit = exit.has_value() ? *exit : child.Kill();
  return run;
}

}  // namespace hone
