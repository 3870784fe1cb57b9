// Child processes that talk over a socket.
//
// A child is started by exec and shares nothing with this process but its end of a socket pair, at
// a fixed descriptor number, and its standard error. It is expected to end when the other end of
// the socket closes; the kernel's parent-death signal is not used, because it fires when the
// spawning thread exits, not the process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/clocks.h"
#include "runtime/base/unique_fd.h"

namespace hone {

// The child's end of the socket pair.
inline constexpr int kChildSocketFd = 3;

struct ExitStatus {
  // Exactly one is set.
  std::optional<int> code;
  std::optional<int> signal;
  bool success() const { return code == 0; }
  // "exit code 3", "signal 9 (Killed)".
  std::string ToString() const;
};

// A running or ended child and our end of its socket. Move-only, not thread-safe. The destructor
// kills and reaps the child, so no zombie outlives it.
class Subprocess {
 public:
  struct Options {
    std::string program;                 // a path; PATH is not searched
    std::vector<std::string> arguments;  // without argv[0]
    // The whole environment as NAME=value; nullopt: this process's.
    std::optional<std::vector<std::string>> environment;
    // Becomes the child's standard error; -1: ours. Standard input and output are /dev/null.
    int stderr_fd = -1;
    // The child leads a process group of its own, so that what it starts dies with it. A tool that
    // a worker starts stays in the worker's group instead, to die with the worker.
    bool own_process_group = true;
    // It leads a session of its own besides: what Linux's autogroups share processors among.
    bool own_session = false;
  };

  // UNAVAILABLE or NOT_FOUND naming the program when it cannot be started.
  static absl::StatusOr<Subprocess> Spawn(const Options& options);

  Subprocess() = default;
  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&& other) noexcept;
  ~Subprocess();

  pid_t pid() const { return pid_; }
  // Our end of the socket; Release() it to hand it to a channel.
  UniqueFd& socket() { return socket_; }

  // Readable when the child has ended, for poll(2); -1 where the kernel has no pidfd_open
  // (before 5.3).
  int pidfd() const { return pidfd_.get(); }
  // Waits for the end and reaps; nullopt if the deadline passes first.
  std::optional<ExitStatus> Wait(Deadline deadline);
  // SIGKILL to the child's process group, then reaps. What the child itself ended with, if it was
  // faster. REQUIRES: Wait has not reaped yet or this returns its result again.
  ExitStatus Kill();

 private:
  std::optional<ExitStatus> Reap(int wait_flags);

  pid_t pid_ = -1;
  UniqueFd socket_;
  UniqueFd pidfd_;
  std::optional<ExitStatus> exit_;
};

// This process's environment without the variables whose names begin with one of `prefixes`.
std::vector<std::string> EnvironmentWithout(const std::vector<std::string>& prefixes);

}  // namespace hone
