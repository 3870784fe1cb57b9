#include "runtime/base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/files.h"

extern char** environ;

namespace hone {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The recipe for posix_spawn: descriptors, signals and process group of the child.
class SpawnRecipe {
 public:
  SpawnRecipe() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnRecipe() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnRecipe(const SpawnRecipe&) = delete;
  SpawnRecipe& operator=(const SpawnRecipe&) = delete;

  // `socket` and `stderr_fd` must be above kChildSocketFd, so that no step overwrites a later
  // source.
  int Prepare(int socket, int stderr_fd, const Subprocess::Options& options) {
    int error = posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0) {
      error = posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    }
    if (error == 0 && stderr_fd >= 0) {
      error = posix_spawn_file_actions_adddup2(&actions_, stderr_fd, STDERR_FILENO);
    }
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions_, socket, kChildSocketFd);
    // Also what some library opened without close-on-exec.
    if (error == 0) {
      error = posix_spawn_file_actions_addclosefrom_np(&actions_, kChildSocketFd + 1);
    }
    if (error != 0) return error;
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    // Who leads a session leads its process group too.
    const int group = options.own_session         ? POSIX_SPAWN_SETSID
                      : options.own_process_group ? POSIX_SPAWN_SETPGROUP
                                                  : 0;
    return posix_spawnattr_setflags(
        &attributes_, static_cast<short>(group | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// A copy of `fd` that is above the numbers the child uses and closes on exec.
UniqueFd RaisedCopy(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, kChildSocketFd + 1)); }

}  // namespace

std::string ExitStatus::ToString() const {
  if (code.has_value()) return absl::StrCat("exit code ", *code);
  if (!signal.has_value()) return "unknown end";
  return absl::StrCat("signal ", *signal, " (", ::strsignal(*signal), ")");
}

absl::StatusOr<Subprocess> Subprocess::Spawn(const Options& options) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return ErrnoStatus(errno, "socketpair for", options.program);
  }
  Subprocess child;
  child.socket_.Reset(pair[0]);
  UniqueFd theirs(pair[1]);
  const UniqueFd raised = RaisedCopy(theirs.get());
  UniqueFd raised_stderr;
  if (options.stderr_fd >= 0) raised_stderr = RaisedCopy(options.stderr_fd);
  if (!raised.valid() || (options.stderr_fd >= 0 && !raised_stderr.valid())) {
    return ErrnoStatus(errno, "descriptor for", options.program);
  }

  SpawnRecipe recipe;
  int error = recipe.Prepare(raised.get(), raised_stderr.get(), options);
  std::vector<std::string> arguments = {options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  const std::vector<char*> argv = Pointers(arguments);
  std::vector<char*> envp;
  if (options.environment.has_value()) envp = Pointers(*options.environment);
  if (error == 0) {
    error =
        ::posix_spawn(&child.pid_, options.program.c_str(), recipe.actions(), recipe.attributes(),
                      argv.data(), options.environment.has_value() ? envp.data() : environ);
  }
  if (error != 0) {
    child.pid_ = -1;
    return ErrnoStatus(error, "start", options.program);
  }
  child.pidfd_.Reset(static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0)));
  return child;
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      socket_(std::move(other.socket_)),
      pidfd_(std::move(other.pidfd_)),
      exit_(std::exchange(other.exit_, std::nullopt)) {}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  if (this == &other) return *this;
  Kill();
  pid_ = std::exchange(other.pid_, -1);
  socket_ = std::move(other.socket_);
  pidfd_ = std::move(other.pidfd_);
  exit_ = std::exchange(other.exit_, std::nullopt);
  return *this;
}

Subprocess::~Subprocess() { Kill(); }

std::optional<ExitStatus> Subprocess::Reap(int wait_flags) {
  if (exit_.has_value() || pid_ < 0) return exit_;
  siginfo_t info = {};
  int seen = 0;
  do {
    seen = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | wait_flags);
  } while (seen < 0 && errno == EINTR);
  if (seen == 0 && info.si_pid == 0) return std::nullopt;
  // What the child started ends with it. The child is not reaped yet, so its number still means it.
  ::kill(-pid_, SIGKILL);

  int status = 0;
  pid_t got = 0;
  do {
    got = ::waitpid(pid_, &status, 0);
  } while (got < 0 && errno == EINTR);
  ExitStatus result;
  if (got < 0) {
    result.code = -1;  // reaped by someone else, as under SIGCHLD ignored
  } else if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
  } else {
    result.code = WEXITSTATUS(status);
  }
  exit_ = result;
  return exit_;
}

std::optional<ExitStatus> Subprocess::Wait(Deadline deadline) {
  while (true) {
    if (auto end = Reap(WNOHANG); end.has_value() || pid_ < 0) return end;
    if (deadline.passed()) return std::nullopt;
    if (pidfd_.valid()) {
      struct pollfd watched = {pidfd_.get(), POLLIN, 0};
      ::poll(&watched, 1, deadline.remaining_poll_ms());
    } else if (deadline.never()) {
      return Reap(0);
    } else {
      // Kernels before 5.3 offer nothing to wait on with a limit that does not take over SIGCHLD.
      absl::SleepFor(std::min(absl::Milliseconds(2), deadline.remaining()));
    }
  }
}

ExitStatus Subprocess::Kill() {
  if (pid_ < 0) return exit_.value_or(ExitStatus{});
  // The group first: it is named by the child's pid, which stays taken until the child is reaped.
  if (!exit_.has_value()) {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
  }
  return Reap(0).value_or(ExitStatus{});
}

std::vector<std::string> EnvironmentWithout(const std::vector<std::string>& prefixes) {
  std::vector<std::string> kept;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    const bool drop = std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& prefix) {
      return absl::StartsWith(text, prefix);
    });
    if (!drop) kept.emplace_back(text);
  }
  return kept;
}

}  // namespace hone
